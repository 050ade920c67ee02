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
    from rowlock.desk.follow.per_loop import StreamsPerLoop
    from rowlock.desk.follow.stream import Streams
    from rowlock.desk.follow.waiting import EndNotifications
    from rowlock.desk.guard import Guard
    from rowlock.desk.jobs import Jobs
    from rowlock.desk.lanes import Lanes
    from rowlock.desk.limits import Limits
    from rowlock.desk.locks import Locks
    from rowlock.desk.operation_driver import BackgroundOperations
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
class DeskResources:
    """What every desk of one application stands on."""

    database: Callable[[], Database]
    wake: Callable[[Iterable[tuple[Pair, datetime]]], None]
    submit: Submit

    @cached_property
    def background_operations(self) -> BackgroundOperations:
        """Bulk orders this process carries out in the background."""
        from rowlock.desk.operation_driver import BackgroundOperations

        return BackgroundOperations(self.database, self.wake)

    @cached_property
    def end_notifications(self) -> EndNotifications:
        """One LISTEN connection per event loop, however many desks there are."""
        from rowlock.desk.follow.waiting import EndNotifications

        return EndNotifications(self.database)

    @cached_property
    def streams_per_loop(self) -> StreamsPerLoop:
        """One poll per event loop for all who follow jobs, and one for all who listen to the feed."""
        from rowlock.desk.follow.per_loop import StreamsPerLoop

        return StreamsPerLoop(self.database, self.end_notifications)

    async def leave(self) -> None:
        """End what runs in the background of this loop; what nobody asked for was never begun."""
        if "streams_per_loop" in self.__dict__:
            await self.streams_per_loop.leave()
        if "background_operations" in self.__dict__:
            await self.background_operations.leave()


class DeskBase:
    """.jobs, .lanes, … of a desk. One that is never asked for is never imported."""

    def __init__(self, resources: DeskResources, guard: Guard) -> None:
        self._resources, self._guard = resources, guard

    @cached_property
    def operations(self) -> Operations:
        """Bulk orders, and how far they are."""
        from rowlock.desk.operations import Operations

        return Operations(self._resources.database, self._resources.background_operations, self._guard)

    @cached_property
    def approvals(self) -> Approvals:
        """Jobs that wait for consent."""
        from rowlock.desk.approvals import Approvals

        return Approvals(self._resources.database, self._guard)

    @cached_property
    def jobs(self) -> Jobs:
        """Jobs: look them up, search, explain, order."""
        from rowlock.desk.jobs import Jobs

        return Jobs(
            self._resources.database,
            self._resources.wake,
            self._guard,
            self._resources.end_notifications,
            self._resources.submit,
            operations=self.operations,
        )

    @cached_property
    def workflows(self) -> Workflows:
        """Workflows and their steps."""
        from rowlock.desk.workflows import Workflows

        return Workflows(
            self._resources.database, self._resources.wake, self.jobs, self._guard, self._resources.end_notifications
        )

    @cached_property
    def lanes(self) -> Lanes:
        """Lanes and their slots."""
        from rowlock.desk.lanes import Lanes

        return Lanes(self._resources.database, self._guard)

    @cached_property
    def limits(self) -> Limits:
        """Gates and rates."""
        from rowlock.desk.limits import Limits

        return Limits(self._resources.database, self._resources.wake, self._guard)

    @cached_property
    def workers(self) -> Workers:
        """Workers that beat, or did."""
        from rowlock.desk.workers import Workers

        return Workers(self._resources.database, self._guard)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules and their runs."""
        from rowlock.desk.schedules import Schedules

        return Schedules(self._resources.database, self._guard, self._resources.submit)

    @cached_property
    def locks(self) -> Locks:
        """Who holds which lock, and who waits."""
        from rowlock.desk.locks import Locks

        return Locks(self._resources.database, self._guard)

    @cached_property
    def stats(self) -> Stats:
        """Figures of the whole."""
        from rowlock.desk.stats import Stats

        return Stats(self._resources.database, self._guard)

    @cached_property
    def streams(self) -> Streams:
        """What happens, as it happens."""
        from rowlock.desk.follow.stream import Streams

        return Streams(self._resources.database, self._guard, self._resources.streams_per_loop)

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens of programs and people."""
        from rowlock.desk.tokens import Tokens

        return Tokens(self._resources.database, self._guard)

    @cached_property
    def roles(self) -> Roles:
        """Who may do what."""
        from rowlock.desk.roles import Roles

        return Roles(self._resources.database, self._guard)

    @cached_property
    def audit(self) -> Audit:
        """Who ordered what, and when."""
        from rowlock.desk.audit import Audit

        return Audit(self._resources.database, self._guard)


class Desk(DeskBase):
    """app.desk(principal): cheap to make, one per request."""

    @property
    def guard(self) -> Guard:
        """What this principal may do."""
        return self._guard

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self._guard.principal
