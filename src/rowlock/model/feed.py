"""What changed anywhere: words of the feed that shows all jobs, lanes and workers at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from rowlock.errors import InvalidOption
from rowlock.model import ids
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Scope = tuple[bool, str | None, str]
"""What somebody may see: all jobs; else their tenant's; else, without a tenant, those they submitted."""
_POSITION: Final = re.compile(r"(\d{1,17})\.((\d{1,19}):(\d{1,19}):((?:\d{1,19}(?:,\d{1,19})*)?))")


class Topic(StrEnum):
    """What a feed may tell of."""

    JOBS = "jobs"
    LANES = "lanes"
    WORKERS = "workers"
    STATS = "stats"


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A look of the feed: the database's clock and its snapshot. What is not in the snapshot has not been told."""

    at: datetime
    snapshot: str

    @classmethod
    def parse(cls, text: str) -> FeedPosition:
        """The position a frame carried as its id."""
        found = _POSITION.fullmatch(text.strip())
        if found is None or not _is_snapshot(int(found[3]), int(found[4]), found[5]):
            message = f"Expected the id of a frame of this feed, such as 1700000000000.7:9:8; got {text[:60]!r}."
            raise InvalidOption(message)
        try:
            return cls(datetime.fromtimestamp(int(found[1]) / 1000, UTC), found[2])
        except (OverflowError, ValueError) as error:
            message = f"The id {text[:60]!r} names no moment. Send one that this feed has sent."
            raise InvalidOption(message) from error

    @override
    def __str__(self) -> str:
        """The id of the frame that leads here."""
        return f"{int(self.at.timestamp() * 1000)}.{self.snapshot}"


def _is_snapshot(oldest: int, next_one: int, open_ones: str) -> bool:
    """Whether the database reads it: the transactions that were open, in order, and all of them between these two."""
    bounds = [oldest, *map(int, open_ones.split(",") if open_ones else ()), next_one]
    return oldest > 0 and bounds == sorted(bounds) and (not open_ones or bounds[-2] < next_one)


@dataclass(frozen=True, slots=True)
class Change:
    """A job that changed, as it is now. seq: grows with each change of the job."""

    id: int
    seq: int
    fence: int
    kind: str
    state: State
    attempt: int
    priority: int
    lane: str | None
    tenant: str | None
    run_after: datetime
    created_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None

    @property
    def event(self) -> str:
        """What happened last: created, claimed, or the state that was reached."""
        if self.fence == 0 and self.seq == 0:
            return "job.created"
        return "job.claimed" if self.state is State.RUNNING else f"job.{self.state}"

    @property
    def data(self) -> dict[str, object]:
        """As a frame has it."""
        names = ("seq", "kind", "state", "attempt", "priority", "lane", "tenant")
        moments = ("run_after", "created_at", "claimed_at", "finished_at")
        about = {name: getattr(self, name) for name in (*names, *moments)}
        return {"event": self.event, "id": ids.encode(self.id), **about}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants to hear of: topics, and of jobs those that fit every filter; empty: all."""

    topics: frozenset[Topic] = frozenset({Topic.JOBS})
    kinds: frozenset[str] = frozenset()
    lanes: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    states: frozenset[State] = frozenset()

    def fits(self, change: Change) -> bool:
        """Whether a job passes the filters."""
        return (
            (not self.kinds or change.kind in self.kinds)
            and (not self.lanes or change.lane in self.lanes)
            and (not self.tenants or change.tenant in self.tenants)
            and (not self.states or change.state in self.states)
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """One look: who sees which changes, in no order between jobs. lag: the oldest of them may have waited so long.

    missed: more changed than a look can tell; fetch again what you show.
    """

    position: FeedPosition
    changes: Sequence[tuple[Change, frozenset[Scope]]] = ()
    lag: float = 0.0
    missed: bool = False


@dataclass(frozen=True, slots=True)
class FeedFrame:
    """What a client is told at once. position: where it goes on after this; None: as before."""

    name: str | None
    data: Mapping[str, object]
    position: FeedPosition | None = None
