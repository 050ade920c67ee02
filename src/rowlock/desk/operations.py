"""app.operations: preview, start, follow and cancel an order for many jobs."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.operation_driver import NEEDED, BackgroundOperations, operation_of, stored
from rowlock.desk.search import JobSearch
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import BulkRefused, InvalidOption, OperationNotFound, WaitTimeout, WrongState
from rowlock.model import search as grammar
from rowlock.model.access import Permission
from rowlock.model.count import Count
from rowlock.model.ids import parse
from rowlock.model.operation import Operation, checked_action
from rowlock.model.options import checked_priority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rowlock.store.database import Database

_SAMPLES: Final = 5
_MOST_IDS: Final = 10_000
_POLL: Final = 0.1


class Operations:
    """Bulk operations."""

    def __init__(
        self, database: Callable[[], Database], background_operations: BackgroundOperations, guard: Guard = TRUSTED
    ) -> None:
        self._open, self._background_operations, self._guard = database, background_operations, guard

    @reads(Permission.READ, scoped=True)
    async def preview(
        self,
        action: str,
        *,
        search: str | None = None,
        ids: Iterable[int | str] | None = None,
        priority: int | None = None,
    ) -> Operation:
        """Count the jobs that an order would reach, with five of them and the filter_hash that start() takes."""
        self._guard.demand(NEEDED[checked_action(action)], scoped=True)
        return (await self._previewed(action, search, _numbers(ids), priority))[0]

    @reads(Permission.READ, scoped=True)
    async def start(
        self,
        action: str,
        *,
        search: str | None = None,
        ids: Iterable[int | str] | None = None,
        priority: int | None = None,
        filter_hash: str,
        expected_max: int,
        by: str | None = None,
        note: str | None = None,
    ) -> Operation:
        """Carry out a previewed order in the background, on expected_max jobs at most."""
        self._guard.demand(NEEDED[checked_action(action)], unsafe=True, scoped=True)
        numbers = _numbers(ids)
        seen, canonical = await self._previewed(action, search, numbers, priority)
        if filter_hash != seen.filter_hash:
            message = (
                f"The filter_hash {filter_hash!r} belongs to another order than this {action}. Preview this one, look "
                "at what it reaches, and send the filter_hash it answers with."
            )
            raise BulkRefused(message)
        if seen.count is not None and seen.count.value > expected_max:
            message = f"{seen.count} jobs fit by now, more than the {expected_max} expected. Preview it again."
            raise BulkRefused(message)
        (clock,) = await self._open().fetch("clock")
        (row,) = await self._open().fetch(
            "operation_add",
            action=action,
            search=canonical,
            ids=numbers,
            priority=priority,
            filter_hash=filter_hash,
            expected_max=expected_max,
            as_of=clock["now"],
            principal=await stored(self._open(), self._guard),
            **self._guard.signed("start", by, note),
        )
        self._background_operations.start(row)
        return replace(operation_of(row), count=seen.count, samples=seen.samples)

    async def _previewed(
        self, action: str, text: str | None, numbers: Sequence[int] | None, priority: int | None
    ) -> tuple[Operation, str | None]:
        if (text is None) == (numbers is None):
            message = "A bulk order goes to what a search finds or to the jobs of some ids. Pass one of them."
            raise InvalidOption(message)
        if (action == "priority") != (priority is not None):
            message = 'The action "priority" needs priority=, and no other takes it.'
            raise InvalidOption(message)
        checked = checked_action(action)
        guard = self._guard.acting_with(Permission.READ, NEEDED[checked])
        visible_jobs = VisibleJobs(self._open, guard)
        # What was counted depends on the caller: another one, or the same with other permissions, counts again.
        bound = [json.dumps(guard.visibility, sort_keys=True)]
        wanted = "" if priority is None else str(checked_priority(priority))
        if text is not None:
            query = grammar.parse(text)
            canonical = grammar.render(query)
            job_search = JobSearch(self._open, guard, visible_jobs)
            found, count = await job_search.counted(await job_search.plan(query))
            first, hashed = found.ids[:_SAMPLES], grammar.digest("search", action, wanted, query.hash, *bound)
        else:
            canonical = None
            there = await visible_jobs.many(numbers or ())
            count, first = Count(len(there)), [job.id for job in there[:_SAMPLES]]
            hashed = grammar.digest("ids", action, wanted, *map(str, numbers or ()), *bound)
        samples = await visible_jobs.many(first)
        preview = Operation(checked, hashed, search=canonical, count=count, samples=samples[::-1], priority=priority)
        return preview, canonical

    @reads(Permission.READ, scoped=True)
    async def get(self, operation_id: int) -> Operation:
        """The operation with its progress."""
        found = await self._open().fetch("operation", id=operation_id, **self._guard.visibility)
        if not found:
            raise _not_found(operation_id)
        return operation_of(found[0])

    @changes(Permission.READ, scoped=True)
    async def cancel(self, operation_id: int, *, by: str | None = None, note: str | None = None) -> Operation:
        """Stop after the current batch; finished batches stay. It takes the permission of the order itself."""
        there = await self._open().fetch("operation", id=operation_id, **self._guard.visibility)
        if not there:
            raise _not_found(operation_id)
        own = json.loads(there[0]["principal"])["subject"] == self._guard.principal.subject
        self._guard.demand(NEEDED[there[0]["action"]], unsafe=True, scoped=own)
        found = await self._open().fetch(
            "operation_cancel", id=operation_id, **self._guard.signed("cancel", by, note), **self._guard.visibility
        )
        if not found:
            there = await self._open().fetch("operation", id=operation_id, **self._guard.visibility)
            if not there:
                raise _not_found(operation_id)
            message = f"Cannot cancel operation {operation_id}: it is {there[0]['state']} already."
            raise WrongState(message)
        return operation_of(found[0])

    @reads(Permission.READ, scoped=True)
    async def wait(self, operation_id: int, *, timeout: float | None = None) -> Operation:
        """Wait until the operation is final. timeout in seconds; after WaitTimeout it goes on."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            found = await self._open().fetch("operation", id=operation_id, **self._guard.visibility)
            if not found:
                raise _not_found(operation_id)
            if (operation := operation_of(found[0])).is_final:
                return operation
            if until is not None and time.monotonic() >= until:
                message = f"Operation {operation_id} is still running after {timeout:g} s. It goes on."
                raise WaitTimeout(message)
            await asyncio.sleep(_POLL)

    @reads(Permission.READ, scoped=True)
    async def list(self, *, limit: int = 50) -> list[Operation]:
        """Operations, newest first."""
        found = await self._open().fetch("operations_list", n=limit, **self._guard.visibility)
        return [operation_of(row) for row in found]


def _numbers(job_ids: Iterable[int | str] | None) -> list[int] | None:
    if job_ids is None:
        return None
    numbers = sorted({parse(job_id) for job_id in job_ids})
    if len(numbers) > _MOST_IDS:
        message = f"At most {_MOST_IDS} ids go into one order; got {len(numbers)}. Use a search."
        raise InvalidOption(message)
    return numbers


def _not_found(operation_id: int) -> OperationNotFound:
    return OperationNotFound(f"There is no operation {operation_id}. They are kept for 30 days.")
