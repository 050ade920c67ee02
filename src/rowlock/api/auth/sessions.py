"""Sessions: a browser sends its token once and a cookie afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.api.auth.bearer import address_of
from rowlock.api.auth.hosts import origin_of, own_origin
from rowlock.errors import CrossSite
from rowlock.model.access import SESSION_LONGEST

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

    from rowlock.app import Rowlock
    from rowlock.model.access import Principal

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SECURE: Final = "__Host-rowlock"
"""Browsers accept a cookie with this prefix only over TLS and only from the host itself."""
PLAIN: Final = "rowlock_session"
"""Name of the cookie without TLS, for development."""
_SIMPLE: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""Content types that a form of any site can send without a CORS preflight."""


class SessionAuth:
    """Authenticates by the cookies of open_session(). Changes are accepted from this server's own pages only."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """The principal of the session; None without one or after its end. CrossSite for a change from another site."""
        cookie = connection.cookies.get(_name(connection))
        principal = await self._app.identity.by_session(cookie) if cookie else None
        if principal is not None:
            refuse_cross_site(connection)
        return principal


async def open_session(app: Rowlock, connection: HTTPConnection, token: str, response: Response) -> Principal:
    """Log in and set the cookie on the response. NotAuthenticated or TooManyAttempts for an invalid token."""
    refuse_cross_site(connection)
    cookie, principal = await app.identity.log_in(token, address=address_of(connection))
    set_session_cookie(connection, response, cookie)
    return principal


def set_session_cookie(connection: HTTPConnection, response: Response, cookie: str) -> None:
    """Hand the session to the browser; scripts cannot read it."""
    response.set_cookie(
        _name(connection),
        cookie,
        max_age=int(SESSION_LONGEST.total_seconds()),
        path="/",
        secure=is_secure(connection),
        httponly=True,
        samesite="lax",
    )


def has_session_cookie(connection: HTTPConnection) -> bool:
    """Whether the request brings the cookie of a session, open or not."""
    return _name(connection) in connection.cookies


async def close_session(app: Rowlock, connection: HTTPConnection, response: Response) -> bool:
    """Log out: end the session in the database and delete the cookie. Whether there was one."""
    refuse_cross_site(connection)
    cookie = connection.cookies.get(_name(connection))
    response.delete_cookie(_name(connection), path="/", secure=is_secure(connection), httponly=True, samesite="lax")
    return cookie is not None and await app.identity.log_out(cookie, address=address_of(connection))


def refuse_cross_site(connection: HTTPConnection) -> None:
    """Refuse changes sent by a page of another site: browsers add cookies to the requests of any page."""
    if connection.scope.get("method", "GET") in SAFE:
        return
    site = connection.headers.get("sec-fetch-site")
    same = site == "same-origin" if site is not None else _same_origin(connection)
    sent = connection.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not same or sent in _SIMPLE:
        message = "With a session, changes are accepted from this server's own pages only. Programs send a token."
        raise CrossSite(message)


def _same_origin(connection: HTTPConnection) -> bool:
    """For browsers without Sec-Fetch-Site: the Origin must be this host. A proxy may have removed TLS."""
    origin = origin_of(connection)
    return (
        origin is not None
        and origin == own_origin(connection, origin.scheme)
        and connection.scope["scheme"] in (origin.scheme, "http")
    )


def is_secure(connection: HTTPConnection) -> bool:
    """Whether the client uses TLS, up to the proxy at least."""
    return connection.scope["scheme"] in ("https", "wss")


def _name(connection: HTTPConnection) -> str:
    return SECURE if is_secure(connection) else PLAIN
