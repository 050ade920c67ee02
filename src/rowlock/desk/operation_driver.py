"""Carries out bulk operations, one batch per transaction; after a crash another process goes on at the cursor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rowlock.desk.bulk import Bulk
from rowlock.desk.guard import Guard
from rowlock.desk.job_orders import JobOrders
from rowlock.desk.phrases import several
from rowlock.desk.search import JobSearch
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import DatabaseBusy, DatabaseError, Forbidden, RowlockError, WriteRefused
from rowlock.model import search
from rowlock.model.access import SYSTEM, Permission, Principal, known_permissions
from rowlock.model.operation import Operation, checked_action
from rowlock.store import search as composing
from rowlock.store.database import RACES, TRANSIENT
from rowlock.store.executor import SqlSession
from rowlock.store.jobs.held_rows import held_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowlock.model.queue_pair import Pair, Wake
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor


logger = logging.getLogger("rowlock.bulk")
BATCH: Final = 500
_TRIES: Final = 5
_PAUSE: Final = 0.2
NEEDED: Final = {
    "cancel": Permission.CANCEL,
    "retry": Permission.RETRY,
    "approve": Permission.APPROVE,
    "reject": Permission.APPROVE,
    "priority": Permission.EDIT,
    "delete": Permission.DELETE,
}
"""Action to the permission that it takes."""


class Overtaken(Exception):
    """The operation was cancelled, or another driver did this batch."""


@dataclass(frozen=True, slots=True)
class _OperationBatch:
    """The next jobs, and the cursor after them. last: no batch follows."""

    ids: Sequence[int]
    cursor: int
    last: bool
    where: composing.Conditions | None = None

    def first(self, size: int) -> _OperationBatch:
        """Its first jobs only."""
        if len(self.ids) <= size:
            return self
        return replace(self, ids=self.ids[:size], cursor=self.ids[size - 1], last=False)


@dataclass(frozen=True, slots=True)
class _Held:
    """Jobs of a batch whose rows another transaction holds. by: its sessions, as text; empty: not known."""

    ids: Sequence[int] = ()
    by: str = ""

    @property
    def error(self) -> str | None:
        """What the operation says of them; None: there are none."""
        if not self.ids:
            return None
        number = len(self.ids)
        verb = "was" if number == 1 else "were"
        left = f"another transaction holds {several(number, 'job')}, which {verb} left alone"
        return ": ".join(filter(None, (left, self.by)))


class OperationDriver:
    """Carries out operations with the permissions of their authors, checked again before each batch."""

    def __init__(self, database: Callable[[], Database], wake: Wake) -> None:
        self._open, self._wake = database, wake

    async def to_end(self, row: Record) -> None:
        """Carry out batches until the operation is final or another process drives it."""
        with contextlib.suppress(Overtaken):
            while row["state"] == "running":
                row = await self.step(row)

    async def step(self, row: Record) -> Record:
        """Carry out one batch, and return the operation's row after it."""
        size, failures = BATCH, 0
        while True:
            try:
                return await self._batch(row, size)
            except (WriteRefused, *TRANSIENT) as error:
                failures += 1
                if size > 1 and (failures >= _TRIES or not isinstance(error, RACES)):
                    # One row may be to blame: it is found by ever smaller batches, and only that one is given up.
                    size, failures = size // 2, 0
                elif failures >= _TRIES:
                    return await self._given_up(row, str(error))
                await asyncio.sleep(_PAUSE / BATCH * size)
            except DatabaseError:
                raise
            except RowlockError as error:
                return await self._advance(self._open(), row, row["cursor"], state="failed", error=str(error))

    async def _batch(self, row: Record, size: int) -> Record:
        guard = await self._guard(row)
        batch = (await self._next(row, guard)).first(size)
        allowed = row["expected_max"] - row["done"] - row["skipped"] - row["failed"]
        if len(batch.ids) > allowed:
            error = f"more than the expected {row['expected_max']} jobs fit the search; the rest was left alone"
            if allowed <= 0:
                return await self._advance(self._open(), row, row["cursor"], state="failed", error=error)
            batch = replace(batch, ids=batch.ids[:allowed], cursor=batch.ids[allowed - 1], last=False)
        database, woken = self._open(), list[tuple["Pair", "datetime"]]()
        async with database.connection(watched=True) as connection, connection.transaction():
            # Each statement runs in a savepoint, so that a failed one can be repeated within the batch.
            within = SqlSession(database.statements, connection, savepoints=True, lock_wait=database.lock_wait)
            ids, held = await self._locked(within, batch, to_delete=row["action"] == "delete")
            done = await self._order(within, woken.extend, guard, row, ids) if ids else Bulk([], {})
            changed = len(ids) - len(done.refused)
            row = await self._advance(
                within,
                row,
                batch.cursor,
                state="completed" if batch.last else "running",
                done=changed,
                skipped=len(batch.ids) - changed - len(held.ids),
                failed=len(held.ids),
                error=held.error,
            )
        self._wake(woken)
        return row

    async def _guard(self, row: Record) -> Guard:
        """The author's guard as of now: an operation ends when its token is revoked or its role is taken away."""
        author = json.loads(row["principal"])
        now = await self._open().fetch("operation_rights", id=row["id"])
        held = SYSTEM.permissions if author["kind"] == SYSTEM.kind else known_permissions(now[0]["permissions"])
        if not now[0]["lives"]:
            message = f"the token of {author['subject']} does not hold any more; the rest was left alone"
            raise Forbidden(message, NEEDED[row["action"]])
        anonymous = bool(author.get("anonymous"))
        who = Principal(author["subject"], author["tenant"], held, kind=author["kind"], is_anonymous=anonymous)
        both = (Permission.READ, NEEDED[row["action"]])
        for needed in both:
            if not who.scopes(needed):
                message = f"{author['subject']} lacks the permission {needed} by now; the rest was left alone"
                raise Forbidden(message, needed)
        return Guard(who, request_id=author["request_id"], address=author["address"], within=both)

    async def _next(self, row: Record, guard: Guard) -> _OperationBatch:
        if row["search"] is None:
            ids = sorted(number for number in row["ids"] if number > row["cursor"])
            return _OperationBatch(ids[:BATCH], ids[:BATCH][-1] if ids else row["cursor"], len(ids) <= BATCH)
        job_search = JobSearch(self._open, guard, VisibleJobs(self._open, guard))
        plan = await job_search.plan(search.parse(row["search"]), now=row["as_of"])
        found = await job_search.find(plan, BATCH, newest=False, above=row["cursor"], below=row["ceiling"] + 1)
        if len(found.ids) == BATCH:
            return _OperationBatch(found.ids, found.ids[-1], last=False, where=plan.where)
        last = found.reached is None
        return _OperationBatch(found.ids, row["ceiling"] if found.reached is None else found.reached, last, plan.where)

    @staticmethod
    async def _locked(within: SqlSession, batch: _OperationBatch, *, to_delete: bool) -> tuple[list[int], _Held]:
        """Lock the jobs of the batch in id order; those that another transaction holds are left out."""
        held, lock = _Held(), "lock_jobs_to_delete" if to_delete else "lock_jobs"
        if not batch.ids:
            return [], held
        try:
            locked = [row["id"] for row in await within.fetch_briefly(lock, ids=list(batch.ids))]
        except DatabaseBusy as error:
            blocked = await held_jobs(within, batch.ids, to_delete=to_delete)
            held = _Held(tuple(sorted(blocked)), error.blockers)
            # Asked again for those that are free: the statement above has locked them, and a deleted job is not there.
            free = [number for number in batch.ids if number not in blocked]
            locked = [row["id"] for row in await within.fetch(lock, ids=free)]
        if batch.where is None or not locked:
            return locked, held
        # Checked again under the lock: jobs that changed since they were found are left alone.
        statement = composing.locking(within.statements, batch.where)
        values = {**batch.where.values, "locked": locked}
        found = await within.connection.fetch(statement.dollar, *statement.bind(values))
        return [row["id"] for row in found], held

    @staticmethod
    async def _order(within: SqlSession, wake: Wake, guard: Guard, row: Record, ids: Sequence[int]) -> Bulk:
        orders = JobOrders(lambda: within, wake, guard, VisibleJobs(lambda: within, guard))
        by, note = row["by_whom"], row["note"]
        if row["action"] == "priority":
            return await orders.priority_batch(ids, row["priority"], by, note)
        give = {
            "cancel": orders.cancel_batch,
            "retry": orders.retry_batch,
            "approve": orders.approve_batch,
            "reject": orders.reject_batch,
            "delete": orders.delete_batch,
        }[row["action"]]
        return await give(ids, by, note)

    async def _given_up(self, row: Record, error: str) -> Record:
        """Count the next job as failed and go on behind it."""
        batch = (await self._next(row, await self._guard(row))).first(1)
        state = "completed" if batch.last else "running"
        return await self._advance(self._open(), row, batch.cursor, state=state, failed=len(batch.ids), error=error)

    @staticmethod
    async def _advance(
        source: SqlExecutor,
        row: Record,
        cursor: int,
        *,
        state: str,
        done: int = 0,
        skipped: int = 0,
        failed: int = 0,
        error: str | None = None,
    ) -> Record:
        moved = await source.fetch(
            "operation_advance",
            id=row["id"],
            was=row["cursor"],
            cursor=cursor,
            state=state,
            done=done,
            skipped=skipped,
            failed=failed,
            error=error,
        )
        if not moved:
            raise Overtaken
        return moved[0]


class BackgroundOperations:
    """The operations that this process carries out in the background, by event loop."""

    def __init__(self, database: Callable[[], Database], wake: Wake) -> None:
        self._open, self._driver = database, OperationDriver(database, wake)
        self._tasks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Task[None]]]
        self._tasks = weakref.WeakKeyDictionary()

    def start(self, row: Record) -> None:
        """Carry out the operation in a task of the running loop."""
        tasks = self._tasks.setdefault(asyncio.get_running_loop(), {})
        task = tasks[row["id"]] = asyncio.ensure_future(self._drive(row))
        task.add_done_callback(lambda _: tasks.pop(row["id"], None))

    async def _drive(self, row: Record) -> None:
        try:
            await self._driver.to_end(row)
        except Exception as error:  # noqa: BLE001 - upkeep takes over; nobody awaits this task
            logger.warning("operation %d is left to upkeep: %s", row["id"], error)

    async def leave(self) -> None:
        """Stop the tasks of the running loop; a worker goes on where they stopped."""
        tasks = dict(self._tasks.pop(asyncio.get_running_loop(), {}))
        for task in tasks.values():
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            with contextlib.suppress(DatabaseError):
                await self._open().fetch("operation_leave", ids=list(tasks))


async def stored(database: Database, guard: Guard) -> str:
    """The author as the operation's row stores it: roles not granted in this database, and permissions of no role."""
    who = guard.principal
    found = await database.fetch("permissions_for", roles=list(who.roles), subject=who.subject)
    by_role = known_permissions(name for row in found for name in row["permissions"])
    return json.dumps(
        {
            "subject": who.subject,
            "tenant": who.tenant,
            "permissions": sorted(who.permissions - by_role),
            "roles": [row["name"] for row in found if not row["granted"]],
            "token": who.token,
            "kind": who.kind,
            "anonymous": who.is_anonymous,
            "request_id": guard.request_id,
            "address": guard.address,
        }
    )


def operation_of(row: Record) -> Operation:
    """An Operation from its row."""
    return Operation(
        action=checked_action(row["action"]),
        filter_hash=row["filter_hash"],
        state=row["state"],
        id=row["id"],
        search=row["search"],
        priority=row["priority"],
        expected_max=row["expected_max"],
        done=row["done"],
        skipped=row["skipped"],
        failed=row["failed"],
        error=row["error"],
        by=row["by_whom"],
        note=row["note"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )
