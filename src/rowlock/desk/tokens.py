"""app.tokens: API tokens; the text is shown once, and only its hash is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.roles import holds, known, role_of
from rowlock.errors import InvalidOption, TokenNotFound
from rowlock.model import token_text
from rowlock.model.access import NewToken, Permission, Token, known_permissions, permissions_of
from rowlock.model.keys import checked_key
from rowlock.model.options import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock.model.options import Span
    from rowlock.store.database import Database, Record


class Tokens:
    """API tokens. A token has no permission that its maker lacks, and belongs to its maker's tenant."""

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
        expires_in: Span | None = None,
        by: str | None = None,
    ) -> NewToken:
        """Make a token; only the answer has its text. Roles are resolved whenever it is used.

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
        (row,) = await self._open().fetch(
            "token_add",
            id=parts.id,
            hash=parts.hash,
            name=name,
            subject=subject,
            tenant=tenant,
            permissions=sorted(own),
            roles=named,
            by_whom=self._guard.name_of(by),
            expires_in=span(expires_in, "expires_in"),
        )
        token = token_of(row)
        await audit.record(self._open(), self._guard, "token.create", f"token:{token.id}", after=_shown(token), by=by)
        return NewToken(token, text)

    @changes(Permission.TOKENS_MANAGE)
    async def revoke(self, token_id: str, *, by: str | None = None) -> Token:
        """Revoke a token, and end every session that was opened with it."""
        found = await self._open().fetch("token_revoke", id=token_id, **self._guard.visibility)
        if not found:
            message = f"There is no token {token_id!r}. Its id is the part after rlk_; see rowlock tokens ls."
            raise TokenNotFound(message)
        token = token_of(found[0])
        await audit.record(self._open(), self._guard, "token.revoke", f"token:{token.id}", before=_shown(token), by=by)
        return token

    @reads(Permission.TOKENS_MANAGE)
    async def list(self, *, limit: int = 1000) -> list[Token]:
        """Every token, the newest first, revoked ones included."""
        return [token_of(row) for row in await self._open().fetch("tokens", n=limit, **self._guard.visibility)]

    def _owner(self, name: str, subject: str | None, tenant: str | None) -> tuple[str, str | None]:
        """Subject and tenant of a new token: the maker's own, unless the maker may act for others."""
        who = self._guard.principal
        subject = subject or (f"token:{name}" if who.may(Permission.SUBMIT_AS) else who.subject)
        tenant = who.tenant if tenant is None else checked_key(tenant, "tenant")
        if checked_key(subject, "subject") != who.subject or tenant != who.tenant:
            self._guard.demand(Permission.SUBMIT_AS)
        return subject, tenant


def token_of(row: Record) -> Token:
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
