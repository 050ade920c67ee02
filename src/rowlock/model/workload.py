"""Workers, lanes, backlog, failures and throughput, as the statistics of the desk answer them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.model import ids
from rowlock.model.count import Count
from rowlock.model.hook import hooked_kind
from rowlock.model.lane import EVERY_KIND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rowlock.model.lane import Lane
    from rowlock.model.progress import Progress


SILENT: Final = timedelta(seconds=15)
"""A worker that sent no beat for so long counts as silent everywhere."""
MISSED_BEATS: Final = timedelta(seconds=6)
"""A worker that sent no beat for so long has missed three: nothing is promised of its free slots any more."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running job. worker_silent: its worker sent no beat for 15 seconds, or has no row."""

    id: int
    kind: str
    attempt: int
    lane: str | None
    worker_id: int | None
    worker: str | None
    worker_silent: bool
    since: datetime
    running_for: timedelta
    cancel_requested: bool = False
    progress: Progress | None = None
    tenant: str | None = None
    refs: Mapping[str, object] = field(default_factory=dict)
    tags: Sequence[str] = ()

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode(self.id)

    def without_content(self) -> Running:
        """The job in its slot, for a caller that may not read the job itself."""
        return replace(self, progress=None, tenant=None, refs={}, tags=())


@dataclass(frozen=True, slots=True)
class SetAsideView:
    """A job of which the database does not take a write now.

    step: finish, claim, progress, or the duty of upkeep; lasted: how long so far; blocked_by: the session that holds
    the lock, in words; None: none, or not known.
    """

    job_id: int
    step: str
    error: str
    lasted: timedelta
    blocked_by: str | None


@dataclass(frozen=True, slots=True)
class SetAsideRowView:
    """A row of another table of which the database does not take a write now.

    row: the row in words, such as worker 7; step: the statement of upkeep; lasted: how long so far.
    """

    row: str
    step: str
    error: str
    lasted: timedelta


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """A slot whose handler goes on although its job has ended or runs elsewhere. since: when it was told to stop."""

    job_id: int
    kind: str
    lane: str
    since: datetime

    @property
    def public_id(self) -> str:
        """The job's id to show to people."""
        return ids.encode(self.job_id)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker as its row describes it. silent: no beat for 15 seconds; lanes None: every lane, empty: none.

    slots: its own numbers, where they differ from the lanes'; stuck: slots held by handlers that do not stop when asked
    to; requested: what an operator ordered, such as drain; supervisor: the process id of its supervisor;
    held: the stuck slots, and those of handlers that are just being stopped.
    """

    id: int
    name: str
    host: str
    pid: int
    version: str
    lanes: Sequence[str] | None
    kinds: Sequence[str]
    started_at: datetime
    seen_at: datetime
    state: str
    silent: bool
    running: int
    slots: Mapping[str, int] | None = None
    stuck: int = 0
    requested: str | None = None
    supervisor: int | None = None
    memory: int | None = None
    """Bytes that the process takes, without its child processes, at its last heartbeat; None: not known."""
    held: Sequence[HeldSlot] = ()
    set_aside: Sequence[SetAsideView] = ()
    """Some of the jobs that it has set aside."""
    set_aside_count: int = 0
    """How many there are."""
    set_aside_rows: Sequence[SetAsideRowView] = ()
    """Rows of other tables that it has set aside."""
    carriers: Mapping[str, Mapping[str, str | None]] | None = None
    """Names of carriers by "kinds" and by "lanes"; None: PostgreSQL delivers every job."""

    @property
    def told(self) -> str | None:
        """The old name of `requested`."""
        warnings.warn("WorkerView.told is now called requested.", DeprecationWarning, stacklevel=2)
        return self.requested

    def held_in(self, lane: str) -> int:
        """Slots of this lane that given-up handlers hold."""
        return sum(slot.lane == lane for slot in self.held)

    def serves(self, lane: str) -> bool:
        """Whether it takes jobs of this lane; lanes None: of every lane."""
        return self.lanes is None or lane in self.lanes

    def carrier_of(self, kind: str, lane: str) -> str | None:
        """The carrier that brings jobs of this kind in this lane to its application; None: PostgreSQL does."""
        if self.carriers is None:
            return None
        kinds, lanes = self.carriers["kinds"], self.carriers["lanes"]
        own = hooked_kind(kind)
        return kinds[own] if own in kinds else lanes.get(lane, lanes.get(EVERY_KIND))

    def slots_in(self, lane: Lane) -> int:
        """How many jobs of this lane it runs at once."""
        return (self.slots or {}).get(lane.name, lane.slots) if self.serves(lane.name) else 0

    @property
    def works(self) -> bool:
        """Whether it beats and is not ordered to drain."""
        return self.state == "up" and not self.silent and self.requested is None


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """A lane and its use. slots: of all its live workers; oldest_wait: None when nothing is due.

    held: slots of handlers that were told to stop and have not; they run no job any more.
    """

    lane: Lane
    running: int
    slots: int
    workers: int
    due: Count
    scheduled: Count
    oldest_wait: timedelta | None
    held: int = 0

    @property
    def used(self) -> int:
        """Slots in which nothing else can start."""
        return self.running + self.held


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The slots of one worker in one lane. used: by running jobs and by handlers that were told to stop."""

    lane: str
    used: int
    slots: int


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker with its slots and its jobs, the longest running first; worker.held: slots without a running job."""

    worker: WorkerView
    slots: Sequence[SlotUse]
    jobs: Sequence[Running]


@dataclass(frozen=True, slots=True)
class Status:
    """Lanes, workers, running jobs and queue depth. unserved: backlog of kinds that no lane serves."""

    at: datetime
    lanes: Sequence[LaneLoad]
    workers: Sequence[WorkerStatus]
    unserved: Sequence[Backlog] = ()


@dataclass(frozen=True, slots=True)
class Backlog:
    """Queued jobs of one kind. lane None: no lane serves it; scheduled: not due yet; oldest_*: of those due."""

    kind: str
    lane: str | None
    due: Count = field(default_factory=Count)
    scheduled: Count = field(default_factory=Count)
    oldest_wait: timedelta | None = None
    oldest_id: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """Running jobs of one reference (or tag, under the name `tag`), by phase and kind. longest: run time so far."""

    name: str
    value: str
    phase: str | None
    kind: str
    running: int
    longest: timedelta


@dataclass(frozen=True, slots=True)
class Overview:
    """Jobs by state, lanes and workers. states: live jobs and kept failures; ended: ends within `window`, by state."""

    at: datetime
    states: Mapping[str, Count]
    ended: Mapping[str, Count]
    window: timedelta
    lanes: Sequence[LaneLoad]
    workers: Sequence[WorkerView]


@dataclass(frozen=True, slots=True)
class Failures:
    """How jobs of one kind ended within a window; rate is between 0 and 1.

    Attempts that were retried do not count, only ends.
    """

    kind: str
    ended: Count
    failed: Count
    rate: float
    last_failed_at: datetime | None = None
    last_failed_id: int | None = None
    last_error: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    """Ends within `window`: from the whole minute (or hour, beyond a day) in which the asked one begins until now."""

    ended: Count
    window: timedelta
    per_second: float


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """Ended jobs of one tenant (None: without tenant) within `window`, which begins as that of Throughput does."""

    tenant: str | None
    ended: Count
    failed: Count
    window: timedelta
    per_second: float


@dataclass(frozen=True, slots=True)
class Panel:
    """All statistics, read at one moment. running: the longest running first."""

    overview: Overview
    backlog: Sequence[Backlog]
    running: Sequence[Running]
    failures: Sequence[Failures]
    tenants: Sequence[TenantLoad]
    throughput: Throughput
