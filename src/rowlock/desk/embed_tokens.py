"""EmbedTokens: makes, checks and revokes tokens for pages of the application's own users. No token is stored."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.errors import InvalidOption, NotAuthenticated
from rowlock.model.access import EMBED_KEY_LIFETIME, EMBED_LONGEST
from rowlock.model.embed_token import EmbedGrant, EmbedToken, UnverifiedToken
from rowlock.model.options import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.model.options import Span
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlSession

_SECRET: Final = 32
_NOW: Final = timedelta(0)
_INVALID: Final = "This embed token is damaged, expired or revoked. Ask your application for a new one."


@dataclass(frozen=True, slots=True)
class CheckedGrant:
    """What a valid token allows. seconds: until it expires."""

    grant: EmbedGrant
    seconds: float


class EmbedTokens:
    """Embed tokens and the keys that sign them. Every process that uses the database accepts them."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._open = database

    async def make(
        self,
        expires: Span,
        *,
        job: int | None = None,
        subject: str | None = None,
        tenant: str | None = None,
        show: frozenset[str] = frozenset(),
        may_cancel: bool = False,
    ) -> EmbedToken:
        """A token for one job, or for the jobs of one person; it lives for at most a day."""
        lives = lifetime(expires)
        key = await self._signing_key()
        expires_at = key["now"] + lives
        grant = EmbedGrant(key["id"], key["now"], expires_at, job, subject, tenant, show, may_cancel)
        return EmbedToken(grant.signed(key["secret"]), expires_at)

    async def check(self, text: str) -> CheckedGrant:
        """What a token allows; NotAuthenticated: it is none, or expired, or revoked, or its key was rotated out.

        Failures are not counted and not audited: a page left open sends expired tokens, and a signature of 256 bits
        cannot be guessed.
        """
        token = UnverifiedToken.parse(text)
        if token is None:
            raise NotAuthenticated(_INVALID)
        claimed = token.grant
        found = await self._open().fetch(
            "embed_check",
            key=claimed.key,
            expires_at=claimed.expires_at,
            issued_at=claimed.issued_at,
            targets=claimed.revoked_by,
        )
        if not found or not token.fits(found[0]["secret"]) or found[0]["seconds"] <= 0 or found[0]["revoked"]:
            raise NotAuthenticated(_INVALID)
        return CheckedGrant(claimed, found[0]["seconds"])

    async def rotate(self, session: SqlSession, overlap: timedelta) -> None:
        """Sign with a new key from now on; tokens of the keys before it are accepted for the overlap."""
        await session.fetch("embed_key_end", overlap=overlap)
        await session.fetch("embed_key_retire", overlap=overlap, older_than=_NOW)
        await session.fetch("embed_key_add", id=secrets.token_hex(4), secret=secrets.token_bytes(_SECRET))

    async def _signing_key(self) -> Record:
        """The key that signs; the first one is made when it is needed, and a new one every month."""
        found = await self._open().fetch("embed_key", longest=EMBED_KEY_LIFETIME)
        while not found:
            async with self._open().transaction() as session:
                await session.fetch("embed_key_retire", overlap=EMBED_LONGEST, older_than=EMBED_KEY_LIFETIME)
                await session.fetch("embed_key_add", id=secrets.token_hex(4), secret=secrets.token_bytes(_SECRET))
            found = await self._open().fetch("embed_key", longest=EMBED_KEY_LIFETIME)
        return found[0]


def lifetime(expires: Span) -> timedelta:
    """How long an embed token lives; InvalidOption for none, or more than a day."""
    lives = span(expires, "expires")
    if lives is None or not _NOW < lives <= EMBED_LONGEST:
        message = (
            f"expires must be longer than 0 and at most a day; got {expires!r}. "
            "A page that is open for longer asks your application for a new token."
        )
        raise InvalidOption(message)
    return lives
