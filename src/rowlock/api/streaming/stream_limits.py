"""StreamLimits: how many live streams one caller, and all callers together, may have open."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.api.problems import Problem

if TYPE_CHECKING:
    from rowlock.model.access import Principal

Caller: TypeAlias = tuple[str, str | None, str | None]
_RETRY: Final = {"Retry-After": "5"}


@dataclass(slots=True)
class StreamPlace:
    """The right of one open stream to be open, given back once."""

    _open: Counter[Caller]
    _caller: Caller
    _held: bool = True

    def release(self) -> None:
        """Let another stream have it; a second call does nothing."""
        if self._held:
            self._held = False
            self._open[self._caller] -= 1
            if not self._open[self._caller]:
                del self._open[self._caller]


@dataclass(slots=True)
class StreamLimits:
    """Counts the open streams of one API, in this process."""

    most: int
    most_per_caller: int
    _open: Counter[Caller] = field(default_factory=Counter)

    def take(self, principal: Principal) -> StreamPlace:
        """A place for one stream; a Problem if the caller, or all callers, have too many."""
        caller = (principal.subject, principal.tenant, principal.token)
        if self._open[caller] >= self.most_per_caller:
            raise Problem(
                "too-many-streams",
                f"{principal.name} has {self.most_per_caller} open streams, the limit for one caller. Close some; "
                "/events follows any number of jobs over one connection.",
                headers=_RETRY,
            )
        if self._open.total() >= self.most:
            raise Problem(
                "streams-full",
                f"This server has {self.most} open streams, its limit. Try again later, or at another server.",
                headers=_RETRY,
            )
        self._open[caller] += 1
        return StreamPlace(self._open, caller)

    @property
    def open(self) -> int:
        """Streams that are open."""
        return self._open.total()
