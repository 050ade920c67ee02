"""Locks: their number in PostgreSQL, and views of who holds them and who waits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.errors import InvalidOption
from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

LockKey = str | int
_LONGEST: Final = 1000


def advisory(schema: str, namespace: str, name: str) -> int:
    """The number that stands for a lock in PostgreSQL: 64 bits, the same in every process and version.

    Among n locks that are held or waited for at one moment two share a number with odds of about n² / 2⁶⁵.
    """
    digest = hashlib.blake2b(f"{schema}\0{namespace}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def checked_lock(namespace: object, key: object) -> tuple[str, str]:
    """Return namespace and key as texts if they can name a lock; 7 and "7" are the same key."""
    if not isinstance(namespace, str) or not _fits(namespace):
        message = f"A lock's namespace is a text of 1 to {_LONGEST} characters such as 'edition'; got {namespace!r}."
        raise InvalidOption(message)
    if isinstance(key, bool) or not isinstance(key, (str, int)) or not _fits(str(key)):
        message = f"A lock's key is a whole number or a text of 1 to {_LONGEST} characters; got {key!r}."
        raise InvalidOption(message)
    return namespace, str(key)


def _fits(text: str) -> bool:
    return 1 <= len(text) <= _LONGEST and "\0" not in text and text.isprintable()


@dataclass(frozen=True, slots=True)
class LockUser:
    """A holder of a lock, or a process that waits for it. job_id None: no job, or one the reader may not see."""

    process: str
    """Host and process id."""
    since: datetime
    job_id: int | None = None
    kind: str | None = None

    @property
    def public_id(self) -> str | None:
        """The job's id to show to people."""
        return None if self.job_id is None else ids.encode(self.job_id)

    @property
    def name(self) -> str:
        """Short text for messages."""
        return self.process if self.job_id is None else f"job {self.public_id} ({self.kind}) on {self.process}"


@dataclass(frozen=True, slots=True)
class LockView:
    """A lock in use. holder None: it is changing hands at this moment."""

    namespace: str
    key: str
    at: datetime
    """The database's clock when this was read."""
    holder: LockUser | None
    waiters: Sequence[LockUser] = ()
    """The longest waiting first."""
