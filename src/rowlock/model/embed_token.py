"""Embed tokens: signed texts that let a page of the application's own users follow one job, or one person's jobs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from rowlock.errors import InvalidOption
from rowlock.model.keys import is_key

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = "rle"
EmbedDetail = Literal["items", "logs", "result", "error"]
DETAILS: Final[tuple[str, ...]] = get_args(EmbedDetail)
"""What a token may show beside state and progress."""
_CANCEL: Final = "cancel"
_LARGEST: Final = 16_384
"""Characters of a token; its subject and tenant have 1000 bytes each at most, which JSON may escape."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DOMAIN: Final = b"rowlock embed token v1\n"
"""Signed with each token, so that a signature made for another purpose is none."""


@dataclass(frozen=True, slots=True)
class EmbedGrant:
    """What an embed token allows: to read one job, or the jobs that one person submitted. job None: a person's."""

    key: str
    issued_at: datetime
    expires_at: datetime
    job: int | None = None
    subject: str | None = None
    """The person it was made for. With a job: only so that revoking the person's tokens ends it too."""
    tenant: str | None = None
    show: frozenset[str] = frozenset()
    may_cancel: bool = False

    @property
    def revoked_by(self) -> list[str]:
        """The revocations that end it: of its job, and of its person."""
        of_job = [] if self.job is None else [job_target(self.job)]
        return of_job if self.subject is None else [*of_job, user_target(self.subject, self.tenant)]

    def signed(self, secret: bytes) -> str:
        """The token: its grant, readable by anyone who has it, and a signature."""
        payload: dict[str, Any] = {
            "k": self.key,
            "i": _microseconds(self.issued_at),
            "e": _microseconds(self.expires_at),
        }
        payload |= {"j": self.job, "s": self.subject, "t": self.tenant}
        payload["m"] = sorted(self.show | ({_CANCEL} if self.may_cancel else frozenset()))
        kept = {name: value for name, value in payload.items() if value not in (None, [])}
        text = json.dumps(kept, separators=(",", ":"))
        body = f"{PREFIX}_{_encoded(text.encode())}"
        return f"{body}.{_encoded(_signature(body, secret))}"

    @classmethod
    def _read(cls, payload: dict[str, Any]) -> Self:
        """From what a token says, which anybody may have written: KeyError, TypeError or ValueError unless it fits."""
        key, job, allowed = payload["k"], payload.get("j"), frozenset(payload.get("m", ()))
        subject, tenant = payload.get("s"), payload.get("t")
        if not (key.isascii() and key.isalnum()) or not isinstance(job, int | None):
            raise ValueError(key)
        if not all(each is None or is_key(each) for each in (subject, tenant)) or (job is None and subject is None):
            raise ValueError(subject)
        issued, expires = (_EPOCH + payload[name] * _MICROSECOND for name in ("i", "e"))
        return cls(key, issued, expires, job, subject, tenant, allowed & frozenset(DETAILS), _CANCEL in allowed)


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """An embed token whose signature has not been checked. grant: what it claims."""

    grant: EmbedGrant
    body: str
    signature: bytes

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a token; None: the text is none."""
        body, dot, signature = text.partition(".")
        if not dot or len(text) > _LARGEST or not body.startswith(f"{PREFIX}_"):
            return None
        try:
            payload = json.loads(_decoded(body.removeprefix(f"{PREFIX}_")))
            return cls(EmbedGrant._read(payload), body, _decoded(signature))  # noqa: SLF001 - one value in two classes
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None

    def fits(self, secret: bytes) -> bool:
        """Whether the signature was made with this key."""
        return hmac.compare_digest(self.signature, _signature(self.body, secret))


@dataclass(frozen=True, slots=True)
class EmbedToken:
    """A token for a page of the application's own users. text: what the page sends; it is stored nowhere."""

    text: str = field(repr=False)
    expires_at: datetime


def details_of(show: Iterable[str]) -> frozenset[str]:
    """The details a token shall show; InvalidOption names those that there are."""
    names = frozenset([show] if isinstance(show, str) else show)
    unknown = sorted(str(name) for name in names if name not in DETAILS)
    if unknown:
        message = f"show= takes {', '.join(DETAILS)}; got {', '.join(unknown)}."
        raise InvalidOption(message)
    return names


def job_target(number: int) -> str:
    """The key under which tokens of a job are revoked."""
    return f"job {number}"


def user_target(subject: str, tenant: str | None) -> str:
    """The key under which tokens of a person are revoked; as JSON, so that no two people share one."""
    return json.dumps([tenant, subject])


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def _signature(body: str, secret: bytes) -> bytes:
    return hmac.new(secret, _DOMAIN + body.encode(), hashlib.sha256).digest()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error
