"""Page: a part of what a search found, with cursors to the pages after and before it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rowlock.errors import InvalidCursor
from rowlock.model.count import Count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.model.job import Job

_CHECK: Final = 6
_LARGEST: Final = 2**63 - 1
SORTS: Final = ("newest", "oldest")


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, and opaque cursors for after=; None: there is no more in that direction.

    cut_off: the search stopped after as many jobs as one call may look at, and `next` goes on from there; an empty page
    with a `next` means "none so far". suggestion: a similar search, when nothing was found.
    """

    items: Sequence[Job]
    next: str | None = None
    previous: str | None = None
    count: Count = field(default_factory=Count)
    cut_off: bool = False
    suggestion: str | None = None


class Listing(list["Job"]):
    """Jobs, newest first. cut_off: older ones were not looked at; `before` is the id to continue below."""

    def __init__(self, jobs: Iterable[Job] = (), before: int | None = None) -> None:
        super().__init__(jobs)
        self.before = before

    @property
    def cut_off(self) -> bool:
        """Whether there may be more below `before`, though the list is shorter than its limit."""
        return self.before is not None


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: behind `key` in the order `sort`, or before it when one pages back.

    count: the first page's count, so that later pages need not count again.
    """

    sort: str
    key: int
    filter_hash: str
    back: bool = False
    count: Count = field(default_factory=Count)

    def encode(self) -> str:
        """As opaque text with a checksum."""
        count = [self.count.value, int(self.count.capped)]
        values = [self.sort, self.key, self.filter_hash, int(self.back), *count]
        body = json.dumps(values, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_check(body) + body).decode().rstrip("=")


def decode(text: str, *, sort: str, filter_hash: str) -> Cursor:
    """Read a cursor of this search in this order; InvalidCursor for any other."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        # A text that fails its check is read as nothing, which is no cursor either.
        its_sort, key, its_hash, back, *count = json.loads(raw[_CHECK:] if _check(raw[_CHECK:]) == raw[:_CHECK] else "")
    except (ValueError, TypeError, binascii.Error):
        message = "This is no cursor of a page, or it was cut off in copying. Begin with the first page."
        raise InvalidCursor(message) from None
    if (its_sort, its_hash) != (sort, filter_hash):
        message = (
            "This cursor belongs to another search or another order. Send the search it came with, or begin with the "
            "first page of this one."
        )
        raise InvalidCursor(message)
    return Cursor(
        its_sort, min(max(int(key), -1), _LARGEST), its_hash, bool(back), Count(int(count[0]), exact=not count[1])
    )


def _check(body: bytes) -> bytes:
    return hashlib.blake2s(body, digest_size=_CHECK, person=b"rowlock").digest()
