"""People over the wire: who am I, tokens, the audit, and what this door can do."""

from __future__ import annotations

from datetime import datetime
from importlib import metadata
from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from rowlock.api.auth import close_session, open_session
from rowlock.api.dependencies import Asked, Cursor, Door, Limit, links
from rowlock.api.problems import Problem
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, Body, Seconds, Text
from rowlock.errors import InvalidId
from rowlock.model import ids
from rowlock.model.access import Entry, Permission, Principal, Token

routes = Routes("access")


class MeAnswer(Answer):
    """Who asks, and what they may do."""

    subject: str
    display: str
    kind: str
    tenant: str | None
    roles: list[str]
    permissions: list[str]

    @classmethod
    def of(cls, who: Principal) -> MeAnswer:
        """From the desk's value."""
        return cls(
            subject=who.subject,
            display=who.name,
            kind=who.kind,
            tenant=who.tenant,
            roles=list(who.roles),
            permissions=sorted(who.permissions),
        )


class LogIn(Body):
    """A token, shown once; a cookie stands for it afterwards."""

    token: Annotated[str, Field(min_length=1, max_length=500)]


@routes.post("/auth/login", needs=None)
async def log_in(request: Request, response: Response, door: Door, said: LogIn) -> MeAnswer:
    """Open a session for a browser: the answer sets a cookie that scripts cannot read."""
    return MeAnswer.of(await open_session(door.app, request, said.token, response))


@routes.post("/auth/logout", needs=None, status_code=204)
async def log_out(request: Request, response: Response, door: Door) -> None:
    """End the browser's session, here and in the database."""
    await close_session(door.app, request, response)


class FeaturesAnswer(Answer):
    """What this door can do, for clients that adapt."""

    version: str
    read_only: bool
    metrics: bool


@routes.get("/me", needs=None)
async def get_me(desk: Asked) -> MeAnswer:
    """Who asks, and what they may do."""
    return MeAnswer.of(desk.principal)


@routes.get("/features", needs=None)
async def get_features(door: Door, _desk: Asked) -> FeaturesAnswer:
    """What this door can do."""
    return FeaturesAnswer(
        version=metadata.version("rowlock"),
        read_only=door.read_only,
        metrics=door.metrics is not None,
    )


class TokenAnswer(Answer):
    """A token: what it is worth, never what it is."""

    id: str
    name: str
    subject: str
    tenant: str | None
    permissions: list[str]
    roles: list[str]
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    @classmethod
    def of(cls, token: Token, **more: object) -> TokenAnswer:
        """From the desk's value."""
        values = {name: getattr(token, name) for name in TokenAnswer.model_fields}
        return cls.model_validate({**values, "permissions": sorted(token.permissions), **more})


class NewTokenAnswer(TokenAnswer):
    """A token right after it was made. text: shown this once and kept nowhere."""

    text: str


class TokensAnswer(Answer):
    """The newest first, revoked ones included."""

    items: list[TokenAnswer]


class TokenOrder(Body):
    """A token to make; it is worth no more than what its maker holds."""

    name: Text
    permissions: list[Permission] = Field(default_factory=list)
    roles: Annotated[list[Text], Field(max_length=100)] = Field(default_factory=list)
    subject: Text | None = None
    tenant: Text | None = None
    expires_in_s: Seconds | None = None


class EntryAnswer(Answer):
    """One change that somebody ordered. target: such as job:<id>, lane:<name> or token:<id>."""

    id: str
    at: datetime
    subject: str
    kind: str
    acting_for: str | None
    tenant: str | None
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    note: str | None
    request_id: str | None
    address: str | None

    @classmethod
    def of(cls, entry: Entry) -> EntryAnswer:
        """From the desk's value."""
        values = {name: getattr(entry, name) for name in cls.model_fields}
        return cls.model_validate({**values, "id": str(entry.id)})


class AuditAnswer(Answer):
    """A page of the audit, the newest first."""

    items: list[EntryAnswer]
    next_cursor: str | None


@routes.get("/tokens", needs=Permission.TOKENS_MANAGE)
async def list_tokens(desk: Asked) -> TokensAnswer:
    """Every token, the newest first, revoked ones included."""
    return TokensAnswer(items=[TokenAnswer.of(token) for token in await desk.tokens.list()])


@routes.post("/tokens", needs=Permission.TOKENS_MANAGE, status_code=201)
async def create_token(desk: Asked, order: TokenOrder) -> NewTokenAnswer:
    """Make a token; its text is in this answer and nowhere else."""
    made = await desk.tokens.create(
        order.name,
        permissions=order.permissions,
        roles=order.roles,
        subject=order.subject,
        tenant=order.tenant,
        expires_in=order.expires_in_s,
    )
    return NewTokenAnswer.model_validate(NewTokenAnswer.of(made.token, text=made.text))


@routes.delete("/tokens/{token_id}", needs=Permission.TOKENS_MANAGE)
async def revoke_token(
    desk: Asked, token_id: Annotated[str, Path(max_length=200, pattern=r"^[^\x00]+$")]
) -> TokenAnswer:
    """End a token, and every session that began with it, now."""
    return TokenAnswer.of(await desk.tokens.revoke(token_id))


Filter = Annotated[str | None, Query(max_length=1000, pattern=r"^[^\x00]*$")]


@routes.get("/audit", needs=Permission.AUDIT_READ, response_model=AuditAnswer)
async def list_audit(
    request: Request,
    desk: Asked,
    *,
    target: Filter = None,
    subject: Filter = None,
    action: Filter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Who changed what, when, and how it was before; the newest first."""
    before = None if cursor is None else _decoded(cursor)
    found = await desk.audit.list(target=target, subject=subject, action=action, before=before, limit=limit)
    following = ids.encode(found[-1].id) if len(found) == limit else None
    answer = AuditAnswer(items=[EntryAnswer.of(entry) for entry in found], next_cursor=following)
    return Response(answer.model_dump_json(), headers=links(request, next=following), media_type="application/json")


def _decoded(cursor: str) -> int:
    try:
        return ids.decode(cursor)
    except InvalidId as error:
        raise Problem("invalid-cursor", "This is no cursor of the audit. Begin with the first page.") from error
