"""The desk for one principal: the same classes for everybody, each behind its guard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowlock.desk.approvals import Approvals
from rowlock.desk.audit import Audit
from rowlock.desk.drive import Drives
from rowlock.desk.jobs import Jobs
from rowlock.desk.lanes import Lanes
from rowlock.desk.limits import Limits
from rowlock.desk.locks import Locks
from rowlock.desk.lookouts import Lookouts
from rowlock.desk.operations import Operations
from rowlock.desk.roles import Roles
from rowlock.desk.schedules import Schedules
from rowlock.desk.stats import Stats
from rowlock.desk.stream import Streams
from rowlock.desk.tokens import Tokens
from rowlock.desk.waiting import Ears
from rowlock.desk.workers import Workers
from rowlock.desk.workflows import Workflows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from rowlock.desk.guard import Guard
    from rowlock.desk.orders import Pair
    from rowlock.desk.submit import Submit
    from rowlock.model.access import Principal
    from rowlock.store.database import Database


@dataclass(frozen=True, slots=True)
class Backing:
    """What every desk of one application stands on."""

    database: Callable[[], Database]
    wake: Callable[[Iterable[tuple[Pair, datetime]]], None]
    submit: Submit
    drives: Drives = field(init=False)
    """Bulk orders this process carries out in the background."""
    ears: Ears = field(init=False)
    """One LISTEN connection per event loop, however many desks there are."""
    lookouts: Lookouts = field(init=False)
    """One poll per event loop for all who follow jobs, and one for all who listen to the feed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "drives", Drives(self.database, self.wake))
        object.__setattr__(self, "ears", Ears(self.database))
        object.__setattr__(self, "lookouts", Lookouts(self.database, self.ears))


class Desk:
    """app.desk(principal): cheap to make, one per request."""

    def __init__(self, backing: Backing, guard: Guard) -> None:
        self.guard = guard
        self.operations = Operations(backing.database, backing.drives, guard)
        self.approvals = Approvals(backing.database, guard)
        self.jobs = Jobs(
            backing.database, backing.wake, guard, backing.ears, backing.submit, operations=self.operations
        )
        self.workflows = Workflows(backing.database, backing.wake, self.jobs, guard, backing.ears)
        self.lanes = Lanes(backing.database, guard)
        self.limits = Limits(backing.database, backing.wake, guard)
        self.workers = Workers(backing.database, guard)
        self.schedules = Schedules(backing.database, guard, backing.submit)
        self.locks = Locks(backing.database, guard)
        self.stats = Stats(backing.database, guard)
        self.streams = Streams(backing.database, guard, backing.lookouts)
        self.tokens = Tokens(backing.database, guard)
        self.roles = Roles(backing.database, guard)
        self.audit = Audit(backing.database, guard)

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.guard.principal
