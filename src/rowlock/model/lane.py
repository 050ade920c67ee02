"""Lane: a database-configured share of workers for some kinds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from rowlock.model.hook import hooked_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from rowlock.model.rate import Rate

Ordering = Literal["fast", "strict", "fair"]
EVERY_KIND = "*"


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane row. slots: per worker process; max_total: over all workers, None for no cap."""

    name: str
    kinds: tuple[str, ...] = ()
    slots: int = 10
    max_total: int | None = None
    ordering: Ordering = "fast"
    poll_every: timedelta = timedelta(seconds=5)
    stale_after: timedelta = timedelta(seconds=60)
    enabled: bool = True
    version: int = 1
    updated_at: datetime | None = None
    stall_after: timedelta | None = None
    """Without a report for so long a running job counts as lost; None: never."""
    requires_approval: bool = False
    """Every job of its kinds that is enqueued from now on waits for approval."""
    rate: Rate | None = None
    """How often its jobs may start, over all workers."""
    age_every: timedelta | None = None
    """A job that waits for so long rises by one priority; None: never."""

    @property
    def is_careful(self) -> bool:
        """Whether something about it holds over all workers, so that a claim has to lock it."""
        return self.max_total is not None or self.rate is not None or self.ordering == "strict"


DEFAULT_LANE = Lane("default", kinds=(EVERY_KIND,))


def first_lanes(environment: Sequence[Lane], defined: Sequence[Lane]) -> tuple[Lane, ...]:
    """What a starting worker creates where it is absent: the environment's word counts before the code's."""
    named = {lane.name for lane in environment}
    return (*environment, *(lane for lane in defined if lane.name not in named))


def kinds_by_lane(lanes: Iterable[Lane], known: Collection[str]) -> dict[str, list[str]]:
    """Which known kinds each lane serves: a kind named by a lane belongs there, '*' takes the rest.

    Two lanes that name one kind (a person's SQL): the first by name has it, so that every worker decides alike.
    """
    lanes = sorted(lanes, key=lambda lane: lane.name)
    owner: dict[str, str] = {}
    for lane in lanes:
        for kind in lane.kinds:
            owner.setdefault(kind, lane.name)
    rest = owner.get(EVERY_KIND)
    served: dict[str, list[str]] = {lane.name: [] for lane in lanes}
    for kind in sorted(known):
        # A hook is run where its kind is, wherever an operator moves that.
        lane_name = owner.get(kind) or owner.get(hooked_kind(kind), rest)
        if lane_name is not None:
            served[lane_name].append(kind)
    return served
