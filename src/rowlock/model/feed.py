"""Values of the feed: one stream of changes of visible jobs, schedules and operations, lanes, workers, statistics."""

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

Visibility = tuple[bool, str | None, str, str | None]
"""Which jobs a principal sees, as (all jobs, tenant, subject, scopes in JSON): all, else its tenant's, else its own."""
_POSITION: Final = re.compile(r"(\d{1,17})\.((\d{1,19}):(\d{1,19}):((?:\d{1,19}(?:,\d{1,19})*)?))")


class Topic(StrEnum):
    """What a client may subscribe to."""

    JOBS = "jobs"
    LANES = "lanes"
    WORKERS = "workers"
    STATS = "stats"
    SCHEDULES = "schedules"
    OPERATIONS = "operations"


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """Where a feed resumes: the database's clock and snapshot at one poll. Transactions outside of it follow later."""

    at: datetime
    snapshot: str

    @classmethod
    def parse(cls, text: str) -> FeedPosition:
        """Read the id of a frame."""
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
        """Write the position as a frame id."""
        return f"{int(self.at.timestamp() * 1000)}.{self.snapshot}"


def _is_snapshot(oldest: int, next_one: int, open_ones: str) -> bool:
    """Whether PostgreSQL accepts it as a pg_snapshot: the open transactions in order, all between the two bounds."""
    bounds = [oldest, *map(int, open_ones.split(",") if open_ones else ()), next_one]
    return oldest > 0 and bounds == sorted(bounds) and (not open_ones or bounds[-2] < next_one)


@dataclass(frozen=True, slots=True)
class ChangedJob:
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
        """Name of the last change: job.created, job.claimed, or job.<state reached>."""
        if self.fence == 0 and self.seq == 0:
            return "job.created"
        return "job.claimed" if self.state is State.RUNNING else f"job.{self.state}"

    @property
    def data(self) -> dict[str, object]:
        """The members of its entry in a `jobs` frame."""
        names = ("seq", "kind", "state", "attempt", "priority", "lane", "tenant")
        moments = ("run_after", "created_at", "claimed_at", "finished_at")
        about = {name: getattr(self, name) for name in (*names, *moments)}
        return {"event": self.event, "id": ids.encode(self.id), **about}


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """The subscription of one client: topics, and filters that a job must pass; an empty one passes every job."""

    topics: frozenset[Topic] = frozenset({Topic.JOBS})
    kinds: frozenset[str] = frozenset()
    lanes: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    states: frozenset[State] = frozenset()

    def fits(self, change: ChangedJob) -> bool:
        """Whether a job passes the filters."""
        return (
            (not self.kinds or change.kind in self.kinds)
            and (not self.lanes or change.lane in self.lanes)
            and (not self.tenants or change.tenant in self.tenants)
            and (not self.states or change.state in self.states)
        )


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """The changes found by one poll, each with the visibilities that include it; jobs are in no order.

    lag: seconds that the oldest change may have waited. missed: more changed than one poll reads; clients must refetch.
    """

    position: FeedPosition
    changes: Sequence[tuple[ChangedJob, frozenset[Visibility]]] = ()
    lag: float = 0.0
    missed: bool = False


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event of the feed. name None: only the position. position: where the feed resumes; None: unchanged."""

    name: str | None
    data: Mapping[str, object]
    position: FeedPosition | None = None
