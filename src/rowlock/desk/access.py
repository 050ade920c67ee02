"""The desk for one principal: the same classes for everybody, each behind its guard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowlock.desk.audit import Audit
from rowlock.desk.jobs import Jobs
from rowlock.desk.lanes import Lanes
from rowlock.desk.roles import Roles
from rowlock.desk.stats import Stats
from rowlock.desk.tokens import Tokens
from rowlock.desk.waiting import Ears
from rowlock.desk.workers import Workers

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
    ears: Ears = field(init=False)
    """One LISTEN connection per event loop, however many desks there are."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ears", Ears(self.database))


class Desk:
    """app.desk(principal): cheap to make, one per request."""

    def __init__(self, backing: Backing, guard: Guard) -> None:
        self.guard = guard
        self.jobs = Jobs(backing.database, backing.wake, guard, backing.ears, backing.submit)
        self.lanes = Lanes(backing.database, guard)
        self.workers = Workers(backing.database, guard)
        self.stats = Stats(backing.database, guard)
        self.tokens = Tokens(backing.database, guard)
        self.roles = Roles(backing.database, guard)
        self.audit = Audit(backing.database, guard)

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.guard.principal
