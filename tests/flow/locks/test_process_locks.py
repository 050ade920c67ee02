"""Locks of the application: one at a time over tasks, threads and processes; told when lost; nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import PATIENCE, block_for, busy_for, eventually, in_time, let_others_run, until, until_cancelled

from rowlock import (
    ConfigurationError,
    Context,
    InvalidOption,
    ItemContext,
    LockLost,
    LockNested,
    LockTaken,
    LockTimeout,
    LockView,
    Retry,
    Rowlock,
    Skip,
    State,
    SyncContext,
    SyncItemContext,
    newer_than,
)
from rowlock.flow.locks import process_locks
from rowlock.model import notify_messages
from rowlock.model.lock import advisory
from rowlock.testing import stub_context, stub_sync_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import asyncpg

    from rowlock.store.connections.lock_session import LockSession
    from rowlock.store.database import Record

    Raw = asyncpg.Connection[asyncpg.Record]

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'rowlock:locks' AND datname = current_database()"
HELD = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid IN "
    f"({SESSIONS}) AND (classid::bigint << 32 | objid::bigint) = $1"
)
EDITION = advisory("rowlock", "edition", "7")


async def nothing_left(sql: Raw) -> None:
    async def gone() -> bool:
        return not await sql.fetchval("SELECT count(*) FROM locks") and not await sql.fetchval(HELD, EDITION)

    await eventually(gone)


async def break_connections(sql: Raw) -> None:
    await sql.execute(f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) AS s")


async def waiting(app: Rowlock, n: int = 1) -> LockView:
    async def reached() -> LockView | None:
        return next((lock for lock in await app.locks.list() if len(lock.waiters) == n), None)

    found = await eventually(reached)
    assert found is not None
    return found


async def finished(app: Rowlock, job_id: int, *states: State) -> None:
    async def reached() -> bool:
        return (await app.jobs.get(job_id)).state in (states or (State.COMPLETED,))

    await eventually(reached)


@contextlib.asynccontextmanager
async def held(app: Rowlock) -> AsyncIterator[asyncio.Task[None]]:
    """A task that holds the lock until it is cancelled."""
    got = asyncio.Event()

    async def hold() -> None:
        async with app.lock("edition", 7):
            got.set()
            await until_cancelled()

    task = asyncio.create_task(hold())
    await got.wait()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Ledger:
    """Who was inside, and how many at once."""

    def __init__(self) -> None:
        self.inside = self.most = self.entered = 0

    def enter(self) -> None:
        self.inside += 1
        self.entered += 1
        self.most = max(self.most, self.inside)

    def leave(self) -> None:
        self.inside -= 1

    def visit(self) -> None:
        self.enter()
        block_for(0.002)
        self.leave()


async def test_fifty_tasks_of_two_connections_enter_one_at_a_time(make_app: Callable[..., Rowlock], sql: Raw) -> None:
    apps, ledger = [make_app(), make_app()], Ledger()

    async def work(n: int) -> None:
        async with apps[n % 2].lock("edition", 7 if n % 4 < 2 else "7"):
            ledger.enter()
            await busy_for(0.001)
            ledger.leave()

    await in_time(asyncio.gather(*map(work, range(50))))
    assert (ledger.entered, ledger.most, ledger.inside) == (50, 1, 0)
    assert len(await sql.fetch(SESSIONS)) == 2
    await nothing_left(sql)


async def test_other_keys_namespaces_and_schemas_are_other_locks(app: Rowlock) -> None:
    async with app.lock("edition", 7), app.lock("edition", 8), app.lock("project", 7), app.lock("a", "b"):
        assert [(lock.namespace, lock.key) for lock in await app.locks.list()] == [
            ("a", "b"),
            ("edition", "7"),
            ("edition", "8"),
            ("project", "7"),
        ]
    assert advisory("rowlock", "a", "b") == -156441616356967701  # the same in every release: old and new workers meet
    assert (
        len({advisory(*names) for names in [("r", "a", "b"), ("r", "ab", ""), ("ra", "", "b"), ("s", "a", "b")]}) == 4
    )


async def test_no_connection_before_the_first_lock_and_none_long_after_the_last(
    app: Rowlock, sql: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_locks, "IDLE", 0.05)
    await app.jobs.list()
    assert await sql.fetch(SESSIONS) == []
    async with app.lock("edition", 7):
        assert len(await sql.fetch(SESSIONS)) == 1

    async def closed() -> bool:
        return not await sql.fetch(SESSIONS)

    await eventually(closed)
    async with app.lock("edition", 7):
        assert len(await sql.fetch(SESSIONS)) == 1


async def test_try_and_timeout_name_the_holder(make_app: Callable[..., Rowlock], sql: Raw) -> None:
    app = make_app()
    for asking in (app, make_app()):
        async with held(app):
            with pytest.raises(LockTaken, match=rf"edition '7' is taken: .*:{os.getpid()} holds it since 20") as taken:
                async with asking.lock("edition", 7, wait=False):
                    pass
            assert taken.value.holder is not None
            with pytest.raises(LockTimeout, match=r"edition '7' was not free within 0.1 s: "):
                async with asking.lock("edition", 7, timeout="100ms"):
                    pass
    await nothing_left(sql)


@pytest.mark.parametrize(("namespace", "key"), [("", 1), (7, 1), ("a", ""), ("a", True), ("a", None), ("a", "\0")])
async def test_what_cannot_name_a_lock_is_refused(app: Rowlock, namespace: Any, key: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(InvalidOption, match="A lock's"):
        app.lock(namespace, key)


async def test_waiting_for_oneself_is_refused(app: Rowlock, sql: Raw) -> None:
    async with app.lock("edition", 7):
        with pytest.raises(LockNested, match="already held by the caller, which would wait for itself for ever"):
            async with app.lock("edition", "7"):
                pass
        assert await sql.fetchval(HELD, EDITION) == 1
    await nothing_left(sql)


async def test_a_release_reaches_another_process_in_milliseconds(
    make_app: Callable[..., Rowlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_locks, "_BACKOFF", (0.0, 30.0))
    one, other, times = make_app(), make_app(), list[float]()

    async def wait() -> None:
        async with other.lock("edition", 7):
            times.append(time.monotonic())

    async with one.lock("edition", 7):
        task = asyncio.create_task(wait())
        await waiting(one)
    released = time.monotonic()
    await in_time(task)
    assert times[0] - released < 1  # told, or it would have been half a minute


async def test_the_longest_waiting_process_is_next(
    make_app: Callable[..., Rowlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_locks, "GRACE", 5.0)  # on a busy machine a few milliseconds may be many
    one, other, order = make_app(), make_app(), list[str]()

    async def wait(name: str, app: Rowlock) -> None:
        async with app.lock("edition", 7):
            order.append(name)

    async with one.lock("edition", 7):
        tasks = []
        for n, (name, app) in enumerate([("a", other), ("b", one), ("c", other), ("d", one)], 1):
            tasks.append(asyncio.create_task(wait(name, app)))
            await waiting(one, n)
    await in_time(asyncio.gather(*tasks))
    assert order == ["a", "b", "c", "d"]


@dataclass
class Turns:
    """A process's waiter for EDITION, and messages about its turn that are sent at chosen moments."""

    app: Rowlock
    sql: Raw
    session: LockSession

    async def let_another_process_wait_longest(self) -> None:
        await self.sql.fetchval("SELECT pg_advisory_lock(99)")
        await self.sql.execute(
            "INSERT INTO locks (session, n, pid, key, namespace, name, held, process, since)"
            " VALUES (99, 1, pg_backend_pid(), $1, 'edition', '7', false, 'another', '2000-01-01')",
            EDITION,
        )

    async def announce(self, n: int) -> None:
        payload = notify_messages.encode(notify_messages.LockReleased(EDITION, self.session.number, n))
        await self.sql.execute("SELECT pg_notify($1, $2)", self.session.channel, payload)
        await self.session.fetch("lock_holder", key=EDITION)  # the message came with the answer, or before it
        await let_others_run()
        await self.session.fetch("lock_holder", key=EDITION)  # behind the try that the message led to


@pytest.fixture
async def turns(make_app: Callable[..., Rowlock], sql: Raw, monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.setattr(process_locks, "GRACE", 60.0)
    app = make_app()
    return Turns(app, sql, await process_locks.locks_of(app.database())._opened())


async def test_a_late_message_about_a_turn_that_was_taken_does_not_jump_the_queue(turns: Turns) -> None:
    """A waiter that tries by itself may hold and release the lock before the message about its turn arrives."""
    entered: list[str] = []

    async def enter() -> None:
        async with turns.app.lock("edition", 7):
            entered.append("second")

    async with turns.app.lock("edition", 7):
        second = asyncio.create_task(enter())
        await waiting(turns.app)
        await turns.let_another_process_wait_longest()
    await turns.announce(1)
    assert entered == []
    await turns.announce(2)
    await in_time(second)


async def test_a_message_that_overtakes_the_answer_to_a_release_is_not_forgotten(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process may hold and release the lock before the answer to our release is read."""
    fetch = turns.session.fetch

    async def answer_late(name: str, /, **values: object) -> list[Record]:
        answer = await fetch(name, **values)
        if name == "lock_release" and values["n"] == 1:
            await turns.announce(2)
        return answer

    async def enter() -> None:
        async with turns.app.lock("edition", 7):
            pass

    monkeypatch.setattr(turns.session, "fetch", answer_late)
    async with turns.app.lock("edition", 7):
        second = asyncio.create_task(enter())
        await waiting(turns.app)
        await turns.let_another_process_wait_longest()
    await in_time(second)


async def test_who_gives_up_leaves_nothing_behind(make_app: Callable[..., Rowlock], sql: Raw) -> None:
    """At every moment of the way: in the queue of its process, at its try, and right when it gets the lock."""
    one, other = make_app(), make_app()

    async def wait(app: Rowlock) -> None:
        async with app.lock("edition", 7):
            await let_others_run()

    for pause in (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.02):
        async with one.lock("edition", 7):
            tasks = [asyncio.create_task(wait(app)) for app in (one, other, other)]
            await busy_for(pause)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        task = asyncio.create_task(wait(other))
        await busy_for(pause)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await nothing_left(sql)
    async with one.lock("edition", 7, timeout="5s"):
        pass


async def test_a_broken_connection_is_told_to_the_holder_and_not_to_those_who_wait(app: Rowlock, sql: Raw) -> None:
    told: list[str] = []

    async def hold() -> None:
        try:
            async with app.lock("edition", 7):
                told.append("inside")
                await until_cancelled()
        except LockLost as lost:
            told.append(str(lost))

    holder = asyncio.create_task(hold())

    async def inside() -> bool:
        return bool(told)

    await eventually(inside)
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(hold())
        await waiting(app)
        await break_connections(sql)
        await in_time(holder)

        async def second() -> bool:
            return told.count("inside") == 2

        await eventually(second)
        waiter.cancel()
    assert "The lock edition '7' is lost: the connection that held it is gone" in told[1]
    assert holder.cancelling() == 0
    await app.database().fetch("prune_locks", only=None)
    await nothing_left(sql)


async def test_a_block_that_awaits_nothing_hears_at_its_end_that_the_lock_is_lost(app: Rowlock, sql: Raw) -> None:
    async def deaf() -> None:
        async with app.lock("edition", 7) as lock:
            await break_connections(sql)
            with contextlib.suppress(asyncio.CancelledError):
                await until_cancelled()
            with pytest.raises(LockLost):
                lock.check()

    with pytest.raises(LockLost):
        await deaf()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_own_cancellation_is_not_mistaken_for_a_lost_lock(app: Rowlock, sql: Raw) -> None:
    got = asyncio.Event()

    async def hold() -> None:
        async with app.lock("edition", 7):
            got.set()
            try:
                await until_cancelled()
            except asyncio.CancelledError:
                await break_connections(sql)
                await until_cancelled()

    task = asyncio.create_task(hold())
    await got.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_behind_a_pooler_without_a_direct_url_locks_are_refused(make_app: Callable[..., Rowlock]) -> None:
    with pytest.raises(ConfigurationError, match="Set ROWLOCK_DIRECT_URL to the server itself"):
        async with make_app(pooled=True).lock("edition", 7):
            pass


async def test_closing_the_application_releases(make_app: Callable[..., Rowlock], sql: Raw) -> None:
    app, told = make_app(), list[str]()

    async def hold() -> None:
        try:
            async with app.lock("edition", 7):
                await until_cancelled()
        except LockLost as lost:
            told.append(str(lost))

    task = asyncio.create_task(hold())

    async def taken() -> bool:
        return bool(await sql.fetchval(HELD, EDITION))

    await eventually(taken)
    await app.close()
    await task
    assert "the application was closed" in told[0]
    await eventually(lambda: sql.fetchval(f"SELECT NOT EXISTS ({SESSIONS})"))


def test_blocking_code_locks_too(database_url: str) -> None:
    app, ledger = Rowlock(database_url), Ledger()

    def work() -> None:
        for _ in range(5):
            with app.lock_sync("edition", 7, timeout="30s") as lock:
                ledger.enter()
                lock.check()
                block_for(0.001)
                ledger.leave()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.entered, ledger.most) == (20, 1)
    with app.lock_sync("edition", 7), pytest.raises(LockNested), app.lock_sync("edition", 7):
        pass
    with app.lock_sync("edition", 8), pytest.raises(ZeroDivisionError), app.lock_sync("edition", 9):
        _ = 1 / 0
    assert app.sync.locks.list() == []
    asyncio.run(app.close())


async def test_handlers_items_and_threads_lock_and_are_listed_and_explained(app: Rowlock, sql: Raw) -> None:
    ledger, let_go = Ledger(), threading.Event()

    work = ledger.visit

    async def on_item(ctx: ItemContext, _n: int) -> None:
        async with ctx.lock("edition", 7):
            work()

    def in_thread(ctx: SyncItemContext, _n: int) -> None:
        with ctx.lock("edition", 7):
            work()

    @app.job
    async def items(ctx: Context) -> None:
        await ctx.items(range(6), on_item)

    @app.job
    def threads(ctx: SyncContext) -> None:
        ctx.items(range(6), in_thread)
        with ctx.lock("edition", 7):
            work()

    @app.job
    def first(ctx: SyncContext) -> None:
        with ctx.lock("edition", 7):
            work()
            assert let_go.wait(30)

    async with app.worker({"default": 10}):
        holder = await first.enqueue()
        await eventually(lambda: sql.fetchval("SELECT bool_and(held) FROM locks"))
        jobs = [await task.enqueue() for task in (items, threads)]

        lock = await waiting(app, 12)
        assert lock.holder is not None
        assert (lock.namespace, lock.key, lock.holder.job_id, lock.holder.kind) == ("edition", "7", holder.id, "first")
        assert {waiter.job_id for waiter in lock.waiters} == {job.id for job in jobs}
        told = await app.jobs.explain(jobs[0].id)
        assert told.codes == ["waits_for_lock", "running"]
        assert "It waits for the lock edition '7' since " in told.verdict
        assert f"job {holder.public_id} (first) on " in told.verdict
        let_go.set()
        for job in (holder, *jobs):
            await job.wait(timeout=20)
    assert (ledger.entered, ledger.most) == (14, 1)
    await nothing_left(sql)


async def test_an_item_that_waits_for_its_own_job_is_refused(app: Rowlock) -> None:
    @app.job
    async def nested(ctx: Context) -> str:
        async def inner(item: ItemContext, _n: int) -> None:
            async with item.lock("own", 1):
                pass

        async with ctx.lock("own", 1):
            done = await ctx.items([1], inner)
        return type(done.failed["1"]).__name__

    async with app.worker():
        assert await (await nested.enqueue()).wait(timeout=20) == "LockNested"


async def test_a_thread_that_waits_for_a_lock_can_be_stopped(app: Rowlock, sql: Raw) -> None:
    @app.job(retry=Retry(attempts=1))
    def wait(ctx: SyncContext) -> None:
        with ctx.lock("edition", 7):
            pass

    async with app.worker(), held(app):
        job = await wait.enqueue()
        await waiting(app)
        await app.jobs.cancel(job.id)
        await finished(app, job.id, State.CANCELLED)
        assert (await waiting(app, 0)).holder is not None
    await nothing_left(sql)


async def test_a_thread_hears_at_its_next_word_that_its_lock_is_lost(app: Rowlock, sql: Raw) -> None:
    begun, go, heard = threading.Event(), threading.Event(), list[str]()

    @app.job(retry=Retry(attempts=1))
    def work(ctx: SyncContext) -> None:
        with ctx.lock("edition", 7):
            ctx.progress(1)
            begun.set()
            assert go.wait(PATIENCE)
            try:
                for _ in range(1000):
                    block_for(0.01)
                    ctx.progress(2)
            except LockLost as lost:
                heard.append(str(lost))
                raise

    async with app.worker():
        job = await work.enqueue()
        await until(begun.is_set)
        await break_connections(sql)
        go.set()
        await finished(app, job.id, State.FAILED)
    assert "is lost" in heard[0]
    assert ((await app.jobs.get(job.id)).errors or {})["type"] == "rowlock.errors.LockLost"


async def test_a_worker_that_stops_releases_what_its_jobs_hold(app: Rowlock, sql: Raw) -> None:
    @app.job
    async def hold(ctx: Context) -> None:
        async with ctx.lock("edition", 7):
            await until_cancelled()

    async with app.worker() as worker:
        assert worker is not None
        await hold.enqueue()
        await eventually(lambda: sql.fetchval(HELD, EDITION))
        await worker.stop(after=0)
        await nothing_left(sql)


HOLDER = """
import asyncio, sys
from rowlock import Rowlock

async def main():
    app = Rowlock(sys.argv[1])
    async with app.lock("edition", 7):
        print("holds", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_process_hands_over_and_is_forgotten(app: Rowlock, database_url: str, sql: Raw) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, database_url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"holds\n"

    async def wait() -> None:
        async with app.lock("edition", 7):
            pass

    task = asyncio.create_task(wait())
    lock = await waiting(app)
    assert lock.holder is not None
    assert lock.holder.process.endswith(f":{process.pid}")
    process.send_signal(signal.SIGKILL)
    await in_time(task)
    await process.wait()
    assert await app.locks.list() == []
    assert await sql.fetchval("SELECT count(*) FROM locks") == 1
    await app.database().fetch("prune_locks", only=None)
    assert await sql.fetchval("SELECT count(*) FROM locks") == 0


async def test_of_two_builds_that_race_for_an_edition_the_older_is_skipped(app: Rowlock) -> None:
    """Whoever gets the lock first, the edition never goes back to an older build."""
    editions: dict[str, int] = {}
    older_first = asyncio.Event()

    async def update(ctx: ItemContext, edition: str) -> None:
        build = int(str(ctx.job.args["build"]))
        if build == 1:
            await older_first.wait()
        async with ctx.lock("edition", edition):
            newer_than(build, editions.get(edition), by=f"build {editions.get(edition)}")
            editions[edition] = build
        older_first.set()

    @app.job
    async def process(ctx: Context, build: int) -> dict[str, str]:  # noqa: ARG001 - the items look at it
        return dict((await ctx.items(["main", "v2"], update)).skipped)

    async with app.worker():
        old, new = await process.enqueue(build=1), await process.enqueue(build=2)
        assert await new.wait(timeout=20) == {}
        assert await old.wait(timeout=20) == {"main": "superseded by build 2", "v2": "superseded by build 2"}
        assert [(item.state, item.reason) for item in await app.jobs.items(old.id)] == [
            ("skipped", "superseded by build 2"),
            ("skipped", "superseded by build 2"),
        ]
    assert editions == {"main": 2, "v2": 2}


async def test_a_superseded_plain_handler_ends_its_job_as_cancelled(app: Rowlock) -> None:
    @app.job
    async def build(number: int) -> None:
        newer_than((1, number), (1, 9))

    async with app.worker():
        job = await build.enqueue(number=8)
        await finished(app, job.id, State.CANCELLED)
        assert (await app.jobs.get(job.id)).errors == {"reason": "superseded by (1, 9)"}
        await (await build.enqueue(number=10)).wait(timeout=20)


def test_newer_than_goes_on_with_what_is_newer_or_the_same_and_refuses_what_has_no_order() -> None:
    now = datetime.now(UTC)
    newer_than(now, None)
    newer_than(now, now)
    newer_than(2, 1)
    with pytest.raises(Skip, match=r"^superseded by 20.*T"):
        newer_than(now - timedelta(1), now)
    with pytest.raises(Skip, match=r"^superseded by build X$"):
        newer_than(1.5, 2, by="build X")
    with pytest.raises(InvalidOption, match="'10' comes before '9'"):
        newer_than("9", "10")
    with pytest.raises(InvalidOption, match="time zone"):
        newer_than(now, datetime.now())  # noqa: DTZ005 - the point
    with pytest.raises(InvalidOption, match="two of a kind"):
        newer_than(now, 7)


async def test_a_stub_has_every_lock_and_notes_it() -> None:
    stub = stub_context()
    async with stub.lock("edition", 7), stub.lock("project", "x", wait=False):
        pass
    sync = stub_sync_context()
    with sync.lock("edition", 8):
        pass
    assert (stub.record.locked, sync.record.locked) == ([("edition", "7"), ("project", "x")], [("edition", "8")])
