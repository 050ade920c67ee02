"""Lane: a share of every worker for some kinds, configured by a row of the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from rowlock.model.hook import hooked_kind
from rowlock.model.spelling.renamed import RENAMED_LANE_FIELDS, accepts_old_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from rowlock.model.rate import Rate

LaneOrder: TypeAlias = Literal["fast", "strict", "fair"]
"""fast: by priority and age, loosely under contention; strict: exactly; fair: tenants take turns."""
EVERY_KIND = "*"
"""In a lane's kinds: every kind that no lane names."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The settings of a lane."""

    name: str
    kinds: tuple[str, ...] = ()
    slots: int = 10
    """Jobs at once per worker process."""
    max_total: int | None = None
    """Jobs at once over all workers; None: no cap."""
    order: LaneOrder = "fast"
    poll_interval: timedelta = timedelta(seconds=5)
    """Between two looks of an idle lane."""
    heartbeat_timeout: timedelta = timedelta(seconds=60)
    """A worker that is silent for so long is lost, and its jobs with it."""
    enabled: bool = True
    """False: drained; nothing more starts."""
    version: int = 1
    """Raised by every change."""
    updated_at: datetime | None = None
    progress_timeout: timedelta | None = None
    """A running job that reports nothing for so long is given up; None: never."""
    requires_approval: bool = False
    """Every job of its kinds that is enqueued from now on waits for approval."""
    rate: Rate | None = None
    """How often its jobs may start, over all workers."""
    aging_interval: timedelta | None = None
    """A waiting job rises by one priority per interval; None: never."""

    @property
    def is_careful(self) -> bool:
        """Whether a limit holds over all workers, so that a claim has to lock the lane's row."""
        return self.max_total is not None or self.rate is not None or self.order == "strict"

    @property
    def room(self) -> int:
        """How many of its jobs carriers may have at once, running ones included, if the lane is careful."""
        return self.slots if self.max_total is None else self.max_total

    @property
    def ordering(self) -> LaneOrder:
        """The old name of `order`."""
        return self.order

    @property
    def poll_every(self) -> timedelta:
        """The old name of `poll_interval`."""
        return self.poll_interval

    @property
    def stale_after(self) -> timedelta:
        """The old name of `heartbeat_timeout`."""
        return self.heartbeat_timeout

    @property
    def stall_after(self) -> timedelta | None:
        """The old name of `progress_timeout`."""
        return self.progress_timeout

    @property
    def age_every(self) -> timedelta | None:
        """The old name of `aging_interval`."""
        return self.aging_interval


# Older code writes Lane(poll_every=…).
Lane.__init__ = accepts_old_names(RENAMED_LANE_FIELDS)(Lane.__init__)  # type: ignore[method-assign]  # the same signature

DEFAULT_LANE = Lane("default", kinds=(EVERY_KIND,))


def first_lanes(environment: Sequence[Lane], defined: Sequence[Lane]) -> tuple[Lane, ...]:
    """The lanes that a starting worker creates if they are absent; the environment overrides the code, lane by lane."""
    named = {lane.name for lane in environment}
    return (*environment, *(lane for lane in defined if lane.name not in named))


def kinds_by_lane(lanes: Iterable[Lane], known: Collection[str]) -> dict[str, list[str]]:
    """The known kinds that each lane serves: a lane has the kinds it names, and '*' has every other one.

    If two lanes name one kind (written by hand in SQL), the first by name has it, so that all workers agree.
    """
    lanes = sorted(lanes, key=lambda lane: lane.name)
    owner: dict[str, str] = {}
    for lane in lanes:
        for kind in lane.kinds:
            owner.setdefault(kind, lane.name)
    rest = owner.get(EVERY_KIND)
    served: dict[str, list[str]] = {lane.name: [] for lane in lanes}
    for kind in sorted(known):
        # A hook runs in the lane of its kind, also after an operator moved the kind.
        lane_name = owner.get(kind) or owner.get(hooked_kind(kind), rest)
        if lane_name is not None:
            served[lane_name].append(kind)
    return served
