"""The desk for one principal: the same classes for everybody, each behind its guard.

Each part is imported when it is first asked for: a worker that nobody asks anything holds none of them in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from rowlock.desk.approvals import Approvals
    from rowlock.desk.audit import Audit
    from rowlock.desk.follow.per_loop import Lookouts
    from rowlock.desk.follow.stream import Streams
    from rowlock.desk.follow.waiting import Ears
    from rowlock.desk.guard import Guard
    from rowlock.desk.jobs import Jobs
    from rowlock.desk.lanes import Lanes
    from rowlock.desk.limits import Limits
    from rowlock.desk.locks import Locks
    from rowlock.desk.operation_driver import Drives
    from rowlock.desk.operations import Operations
    from rowlock.desk.roles import Roles
    from rowlock.desk.schedules import Schedules
    from rowlock.desk.stats import Stats
    from rowlock.desk.submit import Submit
    from rowlock.desk.tokens import Tokens
    from rowlock.desk.workers import Workers
    from rowlock.desk.workflows import Workflows
    from rowlock.model.access import Principal
    from rowlock.model.pair import Pair
    from rowlock.store.database import Database


@dataclass(frozen=True)
class Backing:
    """What every desk of one application stands on."""

    database: Callable[[], Database]
    wake: Callable[[Iterable[tuple[Pair, datetime]]], None]
    submit: Submit

    @cached_property
    def drives(self) -> Drives:
        """Bulk orders this process carries out in the background."""
        from rowlock.desk.operation_driver import Drives

        return Drives(self.database, self.wake)

    @cached_property
    def ears(self) -> Ears:
        """One LISTEN connection per event loop, however many desks there are."""
        from rowlock.desk.follow.waiting import Ears

        return Ears(self.database)

    @cached_property
    def lookouts(self) -> Lookouts:
        """One poll per event loop for all who follow jobs, and one for all who listen to the feed."""
        from rowlock.desk.follow.per_loop import Lookouts

        return Lookouts(self.database, self.ears)

    async def leave(self) -> None:
        """End what runs in the background of this loop; what nobody asked for was never begun."""
        if "lookouts" in self.__dict__:
            await self.lookouts.leave()
        if "drives" in self.__dict__:
            await self.drives.leave()


class Parts:
    """.jobs, .lanes, … of a desk. One that is never asked for is never imported."""

    def __init__(self, backing: Backing, guard: Guard) -> None:
        self._backing, self._guard = backing, guard

    @cached_property
    def operations(self) -> Operations:
        """Bulk orders, and how far they are."""
        from rowlock.desk.operations import Operations

        return Operations(self._backing.database, self._backing.drives, self._guard)

    @cached_property
    def approvals(self) -> Approvals:
        """Jobs that wait for consent."""
        from rowlock.desk.approvals import Approvals

        return Approvals(self._backing.database, self._guard)

    @cached_property
    def jobs(self) -> Jobs:
        """Jobs: look them up, search, explain, order."""
        from rowlock.desk.jobs import Jobs

        return Jobs(
            self._backing.database,
            self._backing.wake,
            self._guard,
            self._backing.ears,
            self._backing.submit,
            operations=self.operations,
        )

    @cached_property
    def workflows(self) -> Workflows:
        """Workflows and their steps."""
        from rowlock.desk.workflows import Workflows

        return Workflows(self._backing.database, self._backing.wake, self.jobs, self._guard, self._backing.ears)

    @cached_property
    def lanes(self) -> Lanes:
        """Lanes and their slots."""
        from rowlock.desk.lanes import Lanes

        return Lanes(self._backing.database, self._guard)

    @cached_property
    def limits(self) -> Limits:
        """Gates and rates."""
        from rowlock.desk.limits import Limits

        return Limits(self._backing.database, self._backing.wake, self._guard)

    @cached_property
    def workers(self) -> Workers:
        """Workers that beat, or did."""
        from rowlock.desk.workers import Workers

        return Workers(self._backing.database, self._guard)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules and their runs."""
        from rowlock.desk.schedules import Schedules

        return Schedules(self._backing.database, self._guard, self._backing.submit)

    @cached_property
    def locks(self) -> Locks:
        """Who holds which lock, and who waits."""
        from rowlock.desk.locks import Locks

        return Locks(self._backing.database, self._guard)

    @cached_property
    def stats(self) -> Stats:
        """Figures of the whole."""
        from rowlock.desk.stats import Stats

        return Stats(self._backing.database, self._guard)

    @cached_property
    def streams(self) -> Streams:
        """What happens, as it happens."""
        from rowlock.desk.follow.stream import Streams

        return Streams(self._backing.database, self._guard, self._backing.lookouts)

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens of programs and people."""
        from rowlock.desk.tokens import Tokens

        return Tokens(self._backing.database, self._guard)

    @cached_property
    def roles(self) -> Roles:
        """Who may do what."""
        from rowlock.desk.roles import Roles

        return Roles(self._backing.database, self._guard)

    @cached_property
    def audit(self) -> Audit:
        """Who ordered what, and when."""
        from rowlock.desk.audit import Audit

        return Audit(self._backing.database, self._guard)


class Desk(Parts):
    """app.desk(principal): cheap to make, one per request."""

    @property
    def guard(self) -> Guard:
        """What this principal may do."""
        return self._guard

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self._guard.principal
