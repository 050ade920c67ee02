"""Identity: the principal behind a token or session. Failed attempts are counted in the database, for all processes."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from typing import TYPE_CHECKING, Final

from rowlock.desk import audit
from rowlock.desk.embed_tokens import EmbedTokens
from rowlock.desk.guard import Guard
from rowlock.errors import Forbidden, NotAuthenticated, TooManyAttempts
from rowlock.model import token_text
from rowlock.model.access import (
    FAILURES_WITHIN,
    SESSION_IDLE,
    SESSION_LONGEST,
    Permission,
    Principal,
    known_permissions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock.desk.embed_tokens import CheckedGrant
    from rowlock.model.access import PrincipalKind
    from rowlock.store.database import Database, Record

MOST: Final = 10
"""Failed attempts with one token from one address, after which more are refused unheard."""
MOST_ALTOGETHER: Final = 100
"""Failed attempts from one address with any token, after which more are refused unheard."""
_NOBODY: Final = bytes(32)


class Identity:
    """app.identity: checks credentials for authenticators. None as an answer: there were no such credentials."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database

    async def by_token(self, text: str, *, address: str | None = None) -> Principal:
        """The principal of a token. NotAuthenticated: it is invalid; TooManyAttempts: so were many before it."""
        parts = token_text.parse(text)
        if parts is None:
            raise await self._refused(address, None)
        # The hash is compared before failures are looked at: forgeries with a known id must not lock its holder out.
        found = await self._open().fetch("token_find", id=parts.id)
        kept = [found[0]["hash"], found[0]["previous_hash"] or _NOBODY] if found else [_NOBODY]
        # Every hash is compared, whichever fits, so that the time says nothing.
        fits = [hmac.compare_digest(each, parts.hash) for each in kept]
        if True not in fits or not found or not found[0]["lives"]:
            raise await self._refused(address, parts.id)
        if found[0]["unused"]:
            await self._open().fetch("token_used", id=parts.id)
        return _principal(found[0])

    async def by_embed_token(self, text: str) -> CheckedGrant:
        """What an embed token allows; NotAuthenticated: it is damaged, expired or revoked."""
        return await EmbedTokens(self._open).check(text)

    async def log_in(self, text: str, *, address: str | None = None) -> tuple[str, Principal]:
        """Open a session for a valid token, and return the text for its cookie, of which only a hash is stored."""
        principal = await self.by_token(text, address=address)
        parts = token_text.parse(text)
        cookie = secrets.token_urlsafe(32)
        token_id = parts.id if parts else ""
        async with self._open().transaction() as session:
            await session.fetch("session_open", hash=token_text.digest(cookie), token=token_id)
            await audit.record(session, Guard(principal, address=address), "session.open", f"token:{token_id}")
        return cookie, principal

    async def open_session_of(
        self,
        subject: str,
        *,
        roles: Iterable[str],
        tenant: str | None = None,
        display: str | None = None,
        address: str | None = None,
    ) -> tuple[str, Principal]:
        """Open a session for a person whom an identity provider named, and return the text for its cookie.

        Forbidden: neither the roles, nor those granted to the person here, allow anything.
        """
        named = list(dict.fromkeys(roles))
        principal = await self.of(subject, roles=named, tenant=tenant, display=display)
        guard = Guard(principal, address=address)
        if not principal.permissions:
            await audit.record_refusal(self._open(), guard, f"user:{subject}", after={}, action="login.failed")
            message = (
                f"{principal.name} has no role here, so there is nothing to see. An administrator can map a role of "
                f"the identity provider to one of Rowlock, or grant one: rowlock roles grant {subject!r} user"
            )
            raise Forbidden(message, Permission.READ)
        cookie = secrets.token_urlsafe(32)
        async with self._open().transaction() as session:
            await session.fetch(
                "session_open_person",
                hash=token_text.digest(cookie),
                subject=subject,
                tenant=tenant,
                display=display,
                roles=named,
            )
            await audit.record(session, guard, "session.open", f"user:{subject}")
        return cookie, principal

    async def by_session(self, cookie: str) -> Principal | None:
        """The principal of a session; None: it has ended, because it was idle or old or its token was revoked."""
        hashed = token_text.digest(cookie)
        database = self._open()
        found = await database.fetch(
            "session_find", hash=hashed, idle=SESSION_IDLE, longest=SESSION_LONGEST
        ) or await database.fetch("session_find_person", hash=hashed, idle=SESSION_IDLE, longest=SESSION_LONGEST)
        if not found:
            return None
        if found[0]["unused"]:
            await self._open().fetch("session_seen", hash=hashed)
        return _principal(found[0], kind="user")

    async def log_out(self, cookie: str, *, address: str | None = None) -> bool:
        """End a session; False: there was none."""
        async with self._open().transaction() as session:
            ended = await session.fetch("session_close", hash=token_text.digest(cookie))
            for row in ended:
                who = Principal(row["subject"] or "unknown", row["tenant"])
                target = f"user:{who.subject}" if row["token_id"] is None else f"token:{row['token_id']}"
                await audit.record(session, Guard(who, address=address), "session.close", target)
        return bool(ended)

    async def of(
        self,
        subject: str,
        *,
        roles: Iterable[str] = (),
        tenant: str | None = None,
        permissions: Iterable[Permission] = (),
        display: str | None = None,
    ) -> Principal:
        """A principal that a trusted host names: its roles, the roles granted to the subject, and its permissions."""
        found = await self._open().fetch("permissions_for", roles=list(roles), subject=subject)
        held = known_permissions(name for row in found for name in row["permissions"])
        names = tuple(row["name"] for row in found)
        return Principal(subject, tenant, held.union(permissions), names, display=display)

    async def _refused(self, address: str | None, token_id: str | None) -> NotAuthenticated:
        """Count a failed attempt; one that comes after too many is not counted, so that it writes nothing."""
        place = _network(address)
        keys = [place] if token_id is None else [place, f"{place} {token_id}"]
        limits = [MOST_ALTOGETHER, MOST][: len(keys)]
        blocked = await self._open().fetch("login_blocked", keys=keys, limits=limits, within=FAILURES_WITHIN)
        if blocked:
            return _too_many(blocked[0]["seconds"])
        await self._open().fetch("login_failed", keys=keys, within=FAILURES_WITHIN)
        stranger = Guard(Principal("unknown"), address=address)
        target = f"token:{token_id or 'unknown'}"
        await audit.record_refusal(self._open(), stranger, target, after={}, action="login.failed")
        return NotAuthenticated("This token is not valid: it is mistyped, unknown, expired or revoked.")


def _principal(row: Record, kind: PrincipalKind = "token") -> Principal:
    return Principal(
        row["subject"],
        row["tenant"],
        known_permissions(row["permissions"]),
        tuple(row["roles"]),
        kind,
        display=row["name"],
        token=row["id"],
    )


def _network(address: str | None) -> str:
    """The key under which failures of an address are counted: for IPv6 its /64, all of which one client has."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or "-"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _too_many(seconds: int) -> TooManyAttempts:
    message = f"Too many failed attempts from this address. Try again in {seconds} s."
    return TooManyAttempts(message, seconds)
