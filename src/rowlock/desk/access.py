"""Desk: what one principal may ask and order, in parts such as .jobs and .lanes, each behind the principal's guard.

A part is imported when it is first used, so that a worker, which uses none, does not keep them in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.desk.approvals import Approvals
    from rowlock.desk.audit import Audit
    from rowlock.desk.failures import FailuresByCause
    from rowlock.desk.follow.stream import Streams
    from rowlock.desk.follow.streams_per_loop import StreamsPerLoop
    from rowlock.desk.follow.waiting import EndNotifications
    from rowlock.desk.guard import Guard
    from rowlock.desk.jobs import Jobs
    from rowlock.desk.lanes import Lanes
    from rowlock.desk.limits import Limits
    from rowlock.desk.locks import Locks
    from rowlock.desk.operation_driver import BackgroundOperations
    from rowlock.desk.operations import Operations
    from rowlock.desk.retention import Retention
    from rowlock.desk.roles import Roles
    from rowlock.desk.schedules import Schedules
    from rowlock.desk.stats import Stats
    from rowlock.desk.submit import Submit
    from rowlock.desk.system import System
    from rowlock.desk.tokens import Tokens
    from rowlock.desk.views import SavedViews
    from rowlock.desk.webhooks import Webhooks
    from rowlock.desk.workers import Workers
    from rowlock.desk.workflows import Workflows
    from rowlock.model.access import Principal
    from rowlock.model.queue_pair import Wake
    from rowlock.model.webhook_rules import WebhookRules
    from rowlock.store.database import Database


@dataclass(frozen=True)
class DeskResources:
    """Shared by every desk of one application: the database, and what runs in the background of each event loop."""

    database: Callable[[], Database]
    wake: Wake
    submit: Submit
    reads: Callable[[], Database]
    """Where searches and statistics are read: the database, or a replica of it."""
    webhook_rules: Callable[[], WebhookRules]

    @cached_property
    def background_operations(self) -> BackgroundOperations:
        """Bulk orders that this process carries out in the background."""
        from rowlock.desk.operation_driver import BackgroundOperations

        return BackgroundOperations(self.database, self.wake)

    @cached_property
    def end_notifications(self) -> EndNotifications:
        """One LISTEN connection per event loop, shared by all desks."""
        from rowlock.desk.follow.waiting import EndNotifications

        return EndNotifications(self.database)

    @cached_property
    def streams_per_loop(self) -> StreamsPerLoop:
        """Per event loop, one poll for all streams of jobs and one for all readers of the feed."""
        from rowlock.desk.follow.streams_per_loop import StreamsPerLoop

        return StreamsPerLoop(self.database, self.end_notifications)

    async def leave(self) -> None:
        """Stop the background tasks of the running loop, if any were started."""
        if "streams_per_loop" in self.__dict__:
            await self.streams_per_loop.leave()
        if "background_operations" in self.__dict__:
            await self.background_operations.leave()


class DeskBase:
    """The parts of a desk, each made when it is first used."""

    def __init__(self, resources: DeskResources, guard: Guard) -> None:
        self._resources, self._guard = resources, guard

    @cached_property
    def operations(self) -> Operations:
        """Bulk orders: preview, start, follow, cancel."""
        from rowlock.desk.operations import Operations

        return Operations(self._resources.database, self._resources.background_operations, self._guard)

    @cached_property
    def approvals(self) -> Approvals:
        """Jobs that wait for approval, and approval rules."""
        from rowlock.desk.approvals import Approvals

        return Approvals(self._resources.database, self._guard)

    @cached_property
    def jobs(self) -> Jobs:
        """Jobs: read, search, explain, order."""
        from rowlock.desk.jobs import Jobs

        return Jobs(
            self._resources.database,
            self._resources.wake,
            self._guard,
            self._resources.end_notifications,
            self._resources.submit,
            operations=self.operations,
            reads=self._resources.reads,
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
    def retention(self) -> Retention:
        """How long finished jobs stay."""
        from rowlock.desk.retention import Retention

        return Retention(self._resources.database, self._guard)

    @cached_property
    def workers(self) -> Workers:
        """Workers, and the jobs in their slots."""
        from rowlock.desk.workers import Workers

        return Workers(self._resources.database, self._guard, self._resources.wake)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules and their runs."""
        from rowlock.desk.schedules import Schedules

        return Schedules(self._resources.database, self._guard, self._resources.submit)

    @cached_property
    def locks(self) -> Locks:
        """Locks of the application: holders and waiters."""
        from rowlock.desk.locks import Locks

        return Locks(self._resources.database, self._guard)

    @cached_property
    def stats(self) -> Stats:
        """Counts, rates and waits over all jobs."""
        from rowlock.desk.stats import Stats

        return Stats(self._resources.reads, self._guard)

    @cached_property
    def failures(self) -> FailuresByCause:
        """Failures by cause."""
        from rowlock.desk.failures import FailuresByCause

        return FailuresByCause(self._resources.database, self._guard)

    @cached_property
    def views(self) -> SavedViews:
        """Searches that people keep."""
        from rowlock.desk.views import SavedViews

        return SavedViews(self._resources.database, self._guard)

    @cached_property
    def webhooks(self) -> Webhooks:
        """The endpoints of other systems that get webhooks."""
        from rowlock.desk.webhooks import Webhooks

        resources = self._resources
        return Webhooks(resources.database, resources.wake, self.jobs, resources.webhook_rules, self._guard)

    @cached_property
    def system(self) -> System:
        """The database, deploys, and what changed."""
        from rowlock.desk.system import System

        return System(self._resources.database, self._guard)

    @cached_property
    def streams(self) -> Streams:
        """Live events of one job or of all jobs."""
        from rowlock.desk.follow.stream import Streams

        return Streams(self._resources.database, self._guard, self._resources.streams_per_loop)

    @cached_property
    def tokens(self) -> Tokens:
        """API tokens."""
        from rowlock.desk.tokens import Tokens

        return Tokens(self._resources.database, self._guard)

    @cached_property
    def roles(self) -> Roles:
        """Roles and their permissions."""
        from rowlock.desk.roles import Roles

        return Roles(self._resources.database, self._guard)

    @cached_property
    def audit(self) -> Audit:
        """The audit: every change, with its author."""
        from rowlock.desk.audit import Audit

        return Audit(self._resources.database, self._guard)


class Desk(DeskBase):
    """app.desk(principal): cheap to make, one per request."""

    @property
    def guard(self) -> Guard:
        """The guard of this desk, which checks permissions."""
        return self._guard

    @property
    def principal(self) -> Principal:
        """The principal of this desk."""
        return self._guard.principal
