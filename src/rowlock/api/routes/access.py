"""Access: sessions, the caller, what the API offers, and tokens."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

from fastapi import Body as Content
from fastapi import Path, Query, Request
from starlette.responses import Response

from rowlock.api.auth import LOOPBACK, close_session, open_session
from rowlock.api.auth.loopback import refuse_cross_site
from rowlock.api.auth.sessions import has_session_cookie
from rowlock.api.backend import ApiBackend
from rowlock.api.dependencies import CurrentDesk, Door
from rowlock.api.problems import Problem
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routes.health import schema_version
from rowlock.api.routing import Routes
from rowlock.api.schemas.access import (
    LogIn,
    MeAnswer,
    NewGrant,
    NewToken,
    NewTokenAnswer,
    RoleAnswer,
    RolesAnswer,
    Rotation,
    TokenAnswer,
    TokensAnswer,
)
from rowlock.api.schemas.application import FeaturesAnswer, InstanceAnswer
from rowlock.model.access import Permission
from rowlock.settings import Settings

routes = Routes("access")
LinkToken = Annotated[
    str, Query(max_length=200, description="Token that the server printed.", examples=["4f2c81d0-4f2c81d0-4f2c81d0"])
]
_CREATES = RoutePermissions((Permission.TOKENS_MANAGE,), also={"for another subject or tenant": Permission.SUBMIT_AS})
_LOGIN_PROBLEMS = ("unauthenticated", "too-many-requests", "cross-site", "no-auth-configured", "bad-request")
TokenId = Annotated[
    str, Path(max_length=200, pattern=r"^[^\x00]+$", description="Id of the token.", examples=["4f2c81d0"])
]

RoleName = Annotated[
    str, Path(max_length=100, pattern=r"^[^\x00]+$", description="Name of the role.", examples=["operator"])
]
GrantedSubject = Annotated[
    str,
    Path(
        min_length=1,
        max_length=500,
        pattern=r"^[^\x00]+$",
        description="Who shall not hold it any more.",
        examples=["ada@example.com"],
    ),
]


def _refuse_foreign_hosts(door: ApiBackend, request: Request) -> None:
    """Without authentication a rebound name does not even reach the log-in, whose failures are counted and audited."""
    if door.loopback is not None:
        door.loopback.require_direct(request)


@routes.post("/auth/login", needs=None, problems=_LOGIN_PROBLEMS)
async def log_in(request: Request, response: Response, door: Door, credentials: LogIn) -> MeAnswer:
    """Open a session for a browser; the answer sets a cookie that scripts cannot read.

    A server without authentication takes the token that it printed.
    """
    _refuse_foreign_hosts(door, request)
    if door.loopback is not None and door.loopback.accepts(credentials.token):
        refuse_cross_site(request)
        door.loopback.log_in(request, credentials.token, response)
        return MeAnswer.of(LOOPBACK)
    return MeAnswer.of(await open_session(door.app, request, credentials.token, response))


@routes.post("/auth/logout", needs=None, status_code=204, problems=("cross-site", "no-auth-configured", "bad-request"))
async def log_out(request: Request, response: Response, door: Door) -> None:
    """End the browser's session, here and in the database."""
    _refuse_foreign_hosts(door, request)
    await close_session(door.app, request, response)


@routes.get(
    "/auth/local",
    needs=None,
    status_code=303,
    response_class=Response,
    responses={303: {"description": "The browser is logged in: a cookie is set, and the dashboard follows, or /me."}},
    problems=("unauthenticated", "no-auth-configured", "bad-request", "not-found"),
)
async def log_in_by_link(request: Request, door: Door, token: LinkToken = "") -> Response:
    """The link that a server without authentication prints when it starts: logs this browser in, with a cookie."""
    if door.loopback is None:
        raise Problem("not-found", "This server has authentication: log in with POST /auth/login.")
    # Relative, so that it holds below every prefix and mount point. The token leaves the address bar.
    # From api/v1/auth/local.
    target = "../../../" if door.shows_dashboard(request) else "../me"
    response = Response(status_code=303, headers={"Location": target})
    door.loopback.log_in(request, token, response)
    return response


@routes.get("/me", needs=None)
async def get_me(request: Request, desk: CurrentDesk) -> MeAnswer:
    """The caller and its permissions."""
    return MeAnswer.of(desk.principal, in_session=has_session_cookie(request))


def _instance(settings: Settings) -> InstanceAnswer | None:
    if settings.instance is None:
        return None
    return InstanceAnswer.model_validate({"name": settings.instance, "colour": settings.instance_colour})


@routes.get("/features", needs=None)
async def get_features(door: Door, _desk: CurrentDesk) -> FeaturesAnswer:
    """What this API offers."""
    return FeaturesAnswer(
        version=metadata.version("rowlock"),
        schema_version=await schema_version(door),
        read_only=door.read_only,
        instance=_instance(door.app.settings),
        metrics=door.metrics is not None,
        logins=["token", *(["oidc"] if door.oidc is not None else [])],
    )


@routes.get("/tokens", needs=Permission.TOKENS_MANAGE)
async def list_tokens(desk: CurrentDesk) -> TokensAnswer:
    """Every token, the newest first, revoked ones included."""
    return TokensAnswer(items=[TokenAnswer.of(token) for token in await desk.tokens.list()])


@routes.post("/tokens", needs=_CREATES, status_code=201, problems=("role-not-found", "invalid-option"))
async def create_token(desk: CurrentDesk, new: NewToken) -> NewTokenAnswer:
    """Create a token; its text is in this answer and stored nowhere."""
    made = await desk.tokens.create(
        new.name,
        permissions=new.permissions,
        roles=new.roles,
        subject=new.subject,
        tenant=new.tenant,
        expires_in=new.expires_in,
    )
    return NewTokenAnswer.model_validate(NewTokenAnswer.of(made.token, text=made.text))


@routes.post(
    "/tokens/{token_id}/rotate",
    needs=Permission.TOKENS_MANAGE,
    problems=("token-not-found", "conflict", "invalid-option"),
)
async def rotate_token(
    desk: CurrentDesk, token_id: TokenId, rotation: Annotated[Rotation, Content(default_factory=Rotation)]
) -> NewTokenAnswer:
    """Give a token a new secret, which is in this answer and stored nowhere; the old one is valid for the overlap."""
    made = await desk.tokens.rotate(token_id, overlap=rotation.overlap, expires_in=rotation.expires_in)
    return NewTokenAnswer.model_validate(NewTokenAnswer.of(made.token, text=made.text))


@routes.delete("/tokens/{token_id}", needs=Permission.TOKENS_MANAGE, problems=("token-not-found",))
async def revoke_token(desk: CurrentDesk, token_id: TokenId) -> TokenAnswer:
    """Revoke a token, and end every session that began with it."""
    return TokenAnswer.of(await desk.tokens.revoke(token_id))


@routes.get("/roles", needs=Permission.TOKENS_MANAGE)
async def list_roles(desk: CurrentDesk) -> RolesAnswer:
    """Every role with its permissions, and the subjects to whom it was given."""
    grants = await desk.roles.grants()
    return RolesAnswer(items=[RoleAnswer.of(role, grants) for role in await desk.roles.list()])


@routes.post("/roles/{role}/grants", needs=Permission.TOKENS_MANAGE, problems=("role-not-found", "invalid-option"))
async def grant_role(desk: CurrentDesk, role: RoleName, new: NewGrant) -> RoleAnswer:
    """Give a role to a subject; you can give only permissions that you hold. The role as it is then."""
    return RoleAnswer.of(await desk.roles.grant(new.subject, role), await desk.roles.grants())


@routes.delete(
    "/roles/{role}/grants/{subject:path}",
    needs=Permission.TOKENS_MANAGE,
    problems=("role-not-found", "conflict"),
)
async def revoke_role(desk: CurrentDesk, role: RoleName, subject: GrantedSubject) -> RoleAnswer:
    """Take a role away from a subject; what their identity provider gives stays. The role as it is then."""
    return RoleAnswer.of(await desk.roles.revoke(subject, role), await desk.roles.grants())
