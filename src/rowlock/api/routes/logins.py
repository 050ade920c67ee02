"""Logins: which ones there are, and the way to the identity provider and back."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Query, Request
from starlette.responses import HTMLResponse, Response

from rowlock.api.auth.bearer import address_of
from rowlock.api.auth.hosts import host_of
from rowlock.api.auth.login_attempt import ATTEMPT_SECONDS, LoginAttempt, local_path
from rowlock.api.auth.sessions import close_session, is_secure, refuse_cross_site, set_session_cookie
from rowlock.api.dependencies import Door
from rowlock.api.problems import REQUEST_ID, Problem, problem_of
from rowlock.api.routing import Routes
from rowlock.api.schemas.access import LoginsAnswer, OIDCLoginAnswer, ProviderLogoutAnswer
from rowlock.errors import Forbidden, NotAuthenticated

if TYPE_CHECKING:
    from rowlock.api.auth.oidc import OIDCLogin
    from rowlock.api.backend import ApiBackend

routes = Routes("access")
_SECURE: Final = "__Host-rowlock-login"
_PLAIN: Final = "rowlock_login"
_BEGIN: Final = "/auth/login/oidc"
_CALLBACK: Final = "/auth/callback"
_PROBLEMS: Final = (
    "unauthenticated",
    "forbidden",
    "not-found",
    "no-auth-configured",
    "bad-request",
    "provider-unavailable",
)
ReturnTo = Annotated[
    str | None,
    Query(
        max_length=2000,
        description="Path of this server to show after the login; absent: the dashboard.",
        examples=["/jobs?q=state:failed"],
    ),
]
_FAILED: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Login failed</title></head><body><main><h1>Login failed</h1><p>{detail}</p><p><a href="{again}">Try again</a></p>
<p>Request {request_id}</p></main></body></html>
"""


@routes.get("/auth/logins", needs=None)
async def list_logins(door: Door) -> LoginsAnswer:
    """The logins of this server, for a login page: no credentials are needed to ask."""
    oidc = None if door.oidc is None else OIDCLoginAnswer(label=door.oidc.label, url=_BEGIN.removeprefix("/"))
    return LoginsAnswer(token=True, oidc=oidc)


@routes.get(
    _BEGIN,
    needs=None,
    status_code=303,
    response_class=Response,
    responses={303: {"description": "The browser goes on to the identity provider."}},
    problems=_PROBLEMS,
)
async def begin_oidc_login(request: Request, door: Door, return_to: ReturnTo = None) -> Response:
    """Send the browser to the identity provider, to log in there."""
    oidc = _oidc(door)
    attempt = LoginAttempt.begin(_home(request, door) if return_to is None else local_path(return_to))
    response = Response(status_code=303)
    response.headers["Location"] = await oidc.address(attempt, _callback_url(request, oidc, _BEGIN))
    response.set_cookie(
        _cookie_name(request),
        attempt.cookie,
        max_age=ATTEMPT_SECONDS,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )
    return response


@routes.get(
    _CALLBACK,
    needs=None,
    status_code=303,
    response_class=Response,
    responses={303: {"description": "The person is logged in: a cookie is set, and the page they asked for follows."}},
    extra={"x-any-query": True},
    problems=_PROBLEMS,
)
async def finish_oidc_login(request: Request, door: Door) -> Response:
    """Where the identity provider sends the browser back to; opens a session for the person."""
    oidc = _oidc(door)
    attempt = LoginAttempt.parse(request.cookies.get(_cookie_name(request), ""))
    try:
        person = await oidc.finish(request.query_params, attempt, _callback_url(request, oidc, _CALLBACK))
        cookie, _ = await door.app.identity.open_session_of(
            person.subject,
            roles=person.roles,
            tenant=person.tenant,
            display=person.display,
            address=address_of(request),
        )
    except (NotAuthenticated, Forbidden, Problem) as error:
        response = _failed_page(request, error)
    else:
        response = Response(status_code=303, headers={"Location": attempt.return_to if attempt else "/"})
        set_session_cookie(request, response, cookie)
    # One attempt, one answer: a copied address of this page is worth nothing.
    response.delete_cookie(_cookie_name(request), path="/", secure=is_secure(request), httponly=True, samesite="lax")
    return response


@routes.post("/auth/logout/oidc", needs=None, problems=("cross-site", *_PROBLEMS))
async def log_out_of_oidc(request: Request, response: Response, door: Door) -> ProviderLogoutAnswer:
    """End the browser's session here, and say where it ends the one at the identity provider."""
    oidc = _oidc(door)
    refuse_cross_site(request)
    await close_session(door.app, request, response)
    home = _callback_url(request, oidc, "/auth/logout/oidc").removesuffix(_CALLBACK)
    return ProviderLogoutAnswer(url=await oidc.logout_address(f"{home.removesuffix('/api/v1')}/"))


def _oidc(door: ApiBackend) -> OIDCLogin:
    if door.oidc is None:
        raise Problem("not-found", "This server has no identity provider: log in with POST /auth/login.")
    return door.oidc


def _home(request: Request, door: ApiBackend) -> str:
    """Where a person goes who asked for no page: the dashboard, or /me."""
    base = request.url.path.removesuffix(_BEGIN)
    return f"{base.removesuffix('/api/v1')}/" if door.shows_dashboard(request) else f"{base}/me"


def _callback_url(request: Request, oidc: OIDCLogin, own_path: str) -> str:
    """The address that the provider sends the browser back to, as it was registered there."""
    if oidc.redirect_url is not None:
        return oidc.redirect_url
    if host_of(request) is None:
        raise Problem("bad-request", "The request needs exactly one Host header, a host name or address and a port.")
    path = f"{request.url.path.removesuffix(own_path)}{_CALLBACK}"
    return f"{request.scope['scheme']}://{request.headers['host']}{path}"


def _failed_page(request: Request, error: Exception) -> Response:
    """The reason as a page, since a person has come here by following a link."""
    if "text/html" not in request.headers.get("accept", ""):
        raise error
    problem = problem_of(error)
    again = request.url.path.removesuffix(_CALLBACK) + _BEGIN
    values = {"detail": problem.detail, "again": again, "request_id": request.scope[REQUEST_ID]}
    text = _FAILED.format(**{name: html.escape(str(value)) for name, value in values.items()})
    return HTMLResponse(text, status_code=problem.status)


def _cookie_name(request: Request) -> str:
    return _SECURE if is_secure(request) else _PLAIN
