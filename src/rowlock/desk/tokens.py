"""app.tokens: API tokens; the text is shown once, and only its hash is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rowlock.desk import audit
from rowlock.desk.embed_tokens import EmbedTokens
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.roles import holds, known, role_of
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import InvalidOption, TokenNotFound, WrongState
from rowlock.model import token_text
from rowlock.model.access import (
    TOKEN_LIFETIME,
    NewToken,
    Permission,
    Token,
    known_permissions,
    permissions_of,
)
from rowlock.model.embed_token import details_of, job_target, user_target
from rowlock.model.keys import checked_key
from rowlock.model.options import span
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from rowlock.model.embed_token import EmbedDetail, EmbedToken
    from rowlock.model.options import Span
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlSession


class Tokens:
    """API tokens, and embed tokens for pages of your own users. A token has no permission that its maker lacks."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @changes(Permission.TOKENS_MANAGE)
    async def create(
        self,
        name: str,
        *,
        permissions: Iterable[str] = (),
        roles: Iterable[str] = (),
        subject: str | None = None,
        tenant: str | None = None,
        expires_in: Span | Literal["never"] | None = None,
        by: str | None = None,
    ) -> NewToken:
        """Make a token; only the answer has its text. Roles are resolved whenever it is used.

        expires_in: 90 days unless given; "never" must be asked for.

        subject: whom it acts as; unless given, token:<name>, or the maker where they may not act for others.
        tenant: whose jobs it sees without jobs:read_all.
        """
        checked_key(name, "name")
        own, named = permissions_of(permissions), list(dict.fromkeys(roles))
        if not own and not named:
            message = "A token without a role or a permission may do nothing. Give it at least one of them."
            raise InvalidOption(message)
        there = [role_of(row) for row in await self._open().fetch("roles")]
        holds(self._guard, own.union(*(role.permissions for role in known(named, there))))
        subject, tenant = self._owner(name, subject, tenant)
        text, parts = token_text.make()
        async with self._open().transaction() as session:
            (row,) = await session.fetch(
                "token_add",
                id=parts.id,
                hash=parts.hash,
                name=name,
                subject=subject,
                tenant=tenant,
                permissions=sorted(own),
                roles=named,
                by_whom=self._guard.name_of(by),
                expires_in=lifetime(expires_in, TOKEN_LIFETIME),
            )
            token = token_of(row)
            await audit.record(session, self._guard, "token.create", f"token:{token.id}", after=_shown(token), by=by)
        return NewToken(token, text)

    @changes(Permission.TOKENS_MANAGE)
    async def revoke(self, token_id: str, *, by: str | None = None) -> Token:
        """Revoke a token, and end every session that was opened with it. It takes every permission of the token."""
        async with self._open().transaction() as session:
            before = await self._for_change(session, token_id)
            (row,) = await session.fetch("token_revoke", id=before.id)
            if before.revoked_at is None:
                target = f"token:{before.id}"
                await audit.record(session, self._guard, "token.revoke", target, before=_shown(before), by=by)
        return token_of(row)

    @changes(Permission.TOKENS_MANAGE)
    async def rotate(
        self,
        token: str,
        *,
        overlap: Span = "1d",
        expires_in: Span | Literal["never"] | None = None,
        by: str | None = None,
    ) -> NewToken:
        """Give a token a new secret; the old one is accepted for the overlap. It takes every permission of the token.

        token: its id or name. expires_in: the token expires so long from now; unless given, as long as it was made for.
        """
        async with self._open().transaction() as session:
            before = await self._for_change(session, token)
            if before.revoked_at is not None:
                message = f"Token {before.id} was revoked and stays so. Make a new one: rowlock tokens create"
                raise WrongState(message)
            made_for = None if before.expires_at is None else before.expires_at - before.created_at
            text, parts = token_text.make(before.id)
            (row,) = await session.fetch(
                "token_rotate",
                id=before.id,
                hash=parts.hash,
                overlap=span(overlap, "overlap"),
                expires_in=lifetime(expires_in, made_for),
            )
            after = token_of(row)
            shown = {"expires_at": after.expires_at, "overlap": span(overlap, "overlap")}
            was = {"expires_at": before.expires_at}
            await audit.record(
                session, self._guard, "token.rotate", f"token:{after.id}", before=was, after=shown, by=by
            )
        return NewToken(after, text)

    async def _for_change(self, session: SqlSession, token: str) -> Token:
        """The token of this id or name, locked; Forbidden if it has a permission that the principal lacks."""
        found = await session.fetch("token_for_change", id=token, **self._guard.visibility)
        if not found:
            message = f"There is no token {token!r}. Its id is the part after rlk_; see rowlock tokens ls."
            raise TokenNotFound(message)
        values = dict(found[0])
        holds(self._guard, known_permissions(values.pop("effective")))
        return token_of(values)

    @reads(Permission.TOKENS_MANAGE)
    async def list(self, *, limit: int = 1000) -> list[Token]:
        """Every token, the newest first, revoked ones included."""
        return [token_of(row) for row in await self._open().fetch("tokens", n=limit, **self._guard.visibility)]

    @changes(Permission.TOKENS_MANAGE)
    async def for_job(
        self,
        job_id: int | str,
        *,
        expires: Span = "15m",
        user: str | None = None,
        show: Iterable[EmbedDetail] = (),
        cancel: bool = False,
    ) -> EmbedToken:
        """An embed token: a page of your own users follows this one job with it. It is signed, and stored nowhere.

        It shows state and progress. show: also "items", "logs", "result" or "error"; arguments never. cancel: it may
        also cancel the job. expires: a day at most. user: for whom, so that revoke_for_user() ends it too.
        """
        job = await VisibleJobs(self._open, self._guard).one(job_id)
        if cancel:
            self._guard.demand(Permission.CANCEL)
        subject = None if user is None else checked_key(user, "user")
        return await EmbedTokens(self._open).make(
            expires, job=job.id, subject=subject, tenant=job.tenant, show=details_of(show), may_cancel=cancel
        )

    @changes(Permission.TOKENS_MANAGE)
    async def for_user(
        self,
        subject: str,
        *,
        tenant: str | None = None,
        expires: Span = "15m",
        show: Iterable[EmbedDetail] = (),
        cancel: bool = False,
    ) -> EmbedToken:
        """An embed token for the jobs that one person submitted: those with this submitted_by and this tenant.

        show, cancel and expires: as of for_job().
        """
        subject, tenant = self._owner(subject, subject, tenant)
        if cancel:
            self._guard.demand(Permission.CANCEL)
        return await EmbedTokens(self._open).make(
            expires, subject=subject, tenant=tenant, show=details_of(show), may_cancel=cancel
        )

    @changes(Permission.TOKENS_MANAGE)
    async def revoke_for_job(self, job_id: int | str, *, by: str | None = None) -> None:
        """Refuse every embed token that was made for this job until now. Open streams end within seconds."""
        job = await VisibleJobs(self._open, self._guard).one(job_id)
        await self._revoke_embedded(job_target(job.id), f"job:{job.id}", by)

    @changes(Permission.TOKENS_MANAGE)
    async def revoke_for_user(self, subject: str, *, tenant: str | None = None, by: str | None = None) -> None:
        """Refuse every embed token that was made for this person until now. Open streams end within seconds."""
        subject, tenant = self._owner(subject, subject, tenant)
        await self._revoke_embedded(user_target(subject, tenant), f"user:{subject}", by)

    async def _revoke_embedded(self, key: str, target: str, by: str | None) -> None:
        async with self._open().transaction() as session:
            await session.fetch("embed_revoke", target=key)
            await audit.record(session, self._guard, "embed.revoke", target, by=by)

    @changes(Permission.TOKENS_MANAGE)
    async def rotate_embed_key(self, *, overlap: Span = "1d", by: str | None = None) -> None:
        """Sign embed tokens with a new key; those of the old one are valid for the overlap. "0s" ends all at once.

        A new key is made every 30 days anyway. It concerns every tenant.
        """
        self._guard.demand(Permission.READ_ALL)
        lasting = duration(overlap, "overlap")
        async with self._open().transaction() as session:
            await EmbedTokens(self._open).rotate(session, lasting)
            await audit.record(session, self._guard, "embed.rotate_key", "embed:key", after={"overlap": lasting}, by=by)

    def _owner(self, name: str, subject: str | None, tenant: str | None) -> tuple[str, str | None]:
        """Subject and tenant of a new token: the maker's own, unless the maker may act for others."""
        who = self._guard.principal
        subject = subject or (f"token:{name}" if who.may(Permission.SUBMIT_AS) else who.subject)
        tenant = who.tenant if tenant is None else checked_key(tenant, "tenant")
        if checked_key(subject, "subject") != who.subject or tenant != who.tenant:
            self._guard.demand(Permission.SUBMIT_AS)
        return subject, tenant


def lifetime(expires_in: Span | Literal["never"] | None, default: timedelta | None) -> timedelta | None:
    """How long a token lives; None: for ever."""
    return default if expires_in is None else None if expires_in == "never" else span(expires_in, "expires_in")


def token_of(row: Record | dict[str, Any]) -> Token:
    """A Token from its row."""
    values = dict(row)
    return Token(
        **(values | {"permissions": known_permissions(values["permissions"]), "roles": tuple(values["roles"])})
    )


def _shown(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "subject": token.subject,
        "tenant": token.tenant,
        "permissions": token.permissions,
        "roles": list(token.roles),
        "expires_at": token.expires_at,
    }
