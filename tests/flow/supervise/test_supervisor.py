from __future__ import annotations

import asyncio
import json
import os
import pdb  # noqa: T100 - its name in a stack is what is looked for
import socket
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

import pytest
from tests.factories import Store, opened
from tests.waiting import PATIENCE, block_for, busy_for, eventually, in_time, until_cancelled

from rowlock.errors import ConfigurationError
from rowlock.flow.supervise import control_line
from rowlock.flow.supervise.supervisor import Supervisor
from rowlock.flow.supervise.worker_process import WorkerProcess
from rowlock.flow.worker.recycling import Recycling
from rowlock.flow.worker.watchdog import ThreadStack, claim_on_loop
from rowlock.model.job import Claim
from rowlock.settings import Settings
from rowlock.store.database import Database
from rowlock.telemetry import CURRENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    import asyncpg

    from rowlock import Rowlock


class Replacement:
    """Writes down every call."""

    def __init__(self) -> None:
        self.leaving = False
        self.asked: list[str] = []
        self.signs: list[float] = []
        self.worker: int | None = None
        self.took_over = threading.Event()

    def registered(self, worker_id: int) -> None:
        self.worker = worker_id

    def request(self, reason: str) -> None:
        self.asked.append(reason)

    def report_alive(self, blocked: float) -> None:
        self.signs.append(blocked)

    def replace_now(self) -> NoReturn:
        self.took_over.set()
        raise asyncio.CancelledError  # ends the watch, as the real one ends the process


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


# --- wear ------------------------------------------------------------------------------------------------------------


def test_a_worker_asks_once_when_it_has_run_its_jobs() -> None:
    heir = Replacement()
    recycling = Recycling(Settings(max_jobs=3), heir)
    recycling.count(2)
    assert heir.asked == []
    recycling.count(2)
    recycling.count(1)
    assert heir.asked == ["it ran 4 jobs, max_jobs is 3"]


def test_a_worker_asks_when_it_is_too_large_but_not_before_its_first_job(caplog: pytest.LogCaptureFixture) -> None:
    heir = Replacement()
    recycling = Recycling(Settings(max_memory=1_000_000), heir)
    recycling.check(0)
    recycling.check(0)
    assert heir.asked == []
    assert caplog.text.count("before its first job; max_memory is 976.6 KiB") == 1
    recycling.count(1)
    recycling.check(0)
    assert heir.asked[0].endswith("max_memory is 976.6 KiB")


def test_a_worker_asks_when_too_many_slots_are_stuck() -> None:
    heir = Replacement()
    recycling = Recycling(Settings(max_stuck=2), heir)
    recycling.check(1)
    assert heir.asked == []
    recycling.check(2)
    assert len(heir.asked) == 1
    unlimited = Replacement()
    Recycling(Settings(max_stuck=None), unlimited).check(50)
    assert unlimited.asked == []


async def test_a_worker_inside_a_program_says_once_that_it_should_be_replaced_and_goes_on(
    make_app: Callable[..., Rowlock], caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(max_jobs=1)

    @app.job
    async def work() -> str:
        return "done"

    async with app.worker():
        for _ in range(3):
            assert await (await work.enqueue()).wait(timeout=10) == "done"
    assert caplog.text.count("the worker should be replaced: it ran 1 jobs") == 1


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("ROWLOCK_MAX_JOBS", "100", "max_jobs", 100),
        ("ROWLOCK_MAX_JOBS", "0", "max_jobs", None),
        ("ROWLOCK_MAX_MEMORY", "512MB", "max_memory", 512_000_000),
        ("ROWLOCK_MAX_MEMORY", "off", "max_memory", None),
        ("ROWLOCK_MAX_STUCK", "off", "max_stuck", None),
        ("ROWLOCK_BLOCKED_LIMIT", "2m", "blocked_limit", timedelta(minutes=2)),
        ("ROWLOCK_BLOCKED_LIMIT", "0", "blocked_limit", None),
        ("ROWLOCK_PROCESSES", "4", "processes", 4),
    ],
)
def test_limits_are_read_from_the_environment(variable: str, text: str, field: str, value: object) -> None:
    assert getattr(Settings.from_env({variable: text}), field) == value


def test_a_negative_number_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="ROWLOCK_PROCESSES cannot be read"):
        Settings.from_env({"ROWLOCK_PROCESSES": "-1"})


# --- who blocks the loop ---------------------------------------------------------------------------------------------


def blamed_while(work: Callable[[asyncio.Event], object]) -> object:
    """What `claim_on_loop` says while a loop runs `work` in a handler's context and blocks."""
    blocked, seen = threading.Event(), threading.Event()
    found: list[object] = []

    def block() -> None:
        blocked.set()
        assert seen.wait(10)

    async def main() -> None:
        CURRENT.set({"id": 7, "fence": 2})
        await work(block)  # type: ignore[arg-type, misc]

    loop = asyncio.new_event_loop()

    def look() -> None:
        assert blocked.wait(10)
        found.append(claim_on_loop(loop))
        seen.set()

    watcher = threading.Thread(target=look)
    watcher.start()
    loop.run_until_complete(main())
    watcher.join()
    loop.close()
    return found[0]


def test_a_handler_is_blamed_for_what_it_does_and_for_what_its_tasks_do() -> None:
    async def itself(block: Callable[[], None]) -> None:
        block()

    async def child(block: Callable[[], None]) -> None:
        await asyncio.gather(asyncio.sleep(0), itself(block))

    assert blamed_while(itself) == Claim(7, 2)  # type: ignore[arg-type]
    assert blamed_while(child) == Claim(7, 2)  # type: ignore[arg-type]


def test_nobody_is_blamed_for_a_callback() -> None:
    async def callback(block: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(block)
        await busy_for(0.01)

    assert blamed_while(callback) is None  # type: ignore[arg-type]


def test_a_debugger_in_the_stack_is_seen() -> None:
    here = threading.get_ident()
    assert not ThreadStack(here).in_debugger
    assert eval("ThreadStack(here).in_debugger", {**vars(pdb), "ThreadStack": ThreadStack, "here": here})  # noqa: S307 - a frame of pdb's
    assert "test_a_debugger" in ThreadStack(here).lines


LIMIT = 2.0
"""Seconds a loop may be blocked: longer than a busy machine keeps a process waiting for its turn."""


async def test_a_blocked_worker_blames_one_gives_back_the_rest_and_lets_its_heir_take_over(
    make_app: Callable[..., Rowlock], sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    app = make_app(blocked_limit=timedelta(seconds=LIMIT), lag_limit=timedelta(seconds=LIMIT / 2))
    heir = Replacement()
    started, free = threading.Event(), threading.Event()

    @app.job
    async def innocent() -> None:
        started.set()
        await until_cancelled()

    @app.job
    async def guilty() -> None:
        free.wait(PATIENCE)

    async def took_over() -> bool:
        return heir.took_over.is_set()

    def serve() -> None:
        async def main() -> None:
            worker = app.make_worker(replacement=heir)
            await worker.start()
            await eventually(took_over)
            await worker.stop(after=0)
            await app.close()

        asyncio.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        kept = await innocent.enqueue()
        assert await asyncio.to_thread(started.wait, PATIENCE)
        spun = await guilty.enqueue()
        assert await asyncio.to_thread(heir.took_over.wait, PATIENCE)
        # Now, while the loop is still blocked: this process goes on where a real one would be gone.
        rows = await sql.fetch("SELECT id, state, attempt, losses, deaths, claimed_by FROM jobs ORDER BY id")
        outcomes = await sql.fetch("SELECT job_id, outcome FROM job_attempts ORDER BY job_id")
        state = await sql.fetchval("SELECT state FROM workers WHERE id = $1", heir.worker)
    finally:
        free.set()
        await asyncio.to_thread(thread.join)
    assert [(r["state"], r["attempt"], r["losses"], r["deaths"], r["claimed_by"]) for r in rows] == [
        ("queued", 0, 0, 0, None),
        ("queued", 0, 1, 0, None),
    ]
    assert [tuple(row) for row in outcomes] == [(kept.id, "interrupted"), (spun.id, "lost")]
    assert state == "gone"
    assert max(heir.signs, default=0) <= LIMIT


async def test_a_blocked_worker_inside_a_program_only_warns(
    make_app: Callable[..., Rowlock], caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(blocked_limit=timedelta(seconds=0.4), lag_limit=timedelta(seconds=0.2))

    @app.job
    async def slow() -> str:
        block_for(1.5)  # the fault under test
        return "in the end"

    async with app.worker():
        assert await (await slow.enqueue()).wait(timeout=10) == "in the end"
    assert "the event loop has been blocked for" in caplog.text
    assert "the worker is replaced" not in caplog.text


# --- the statements --------------------------------------------------------------------------------------------------


async def test_unblock_applies_the_kinds_policy_to_the_culprit_alone(store: Store) -> None:
    worker, other = await store.worker("w"), await store.worker("o")
    await store.fetch(
        "register_kinds",
        names=["f"],
        on_worker_lost=["fail"],
        max_losses=[None],
        isolates=[True],
        hooks=[None],
        defaults=[None],
    )
    innocent, guilty, elsewhere = await store.enqueue(), await store.enqueue("f"), await store.enqueue()
    (_, claim) = await store.claim(worker, innocent, guilty)
    await store.claim(other, elsewhere)
    row = await store.one(
        "unblock",
        worker=worker,
        ids=[claim.job_id],
        fences=[claim.fence],
        place="spin (x.py:1)",
        max_losses=3,
        channel=store.database.channel,
    )
    assert sorted(row["ids"]) == [innocent, guilty]
    assert await store.states(innocent, guilty, elsewhere) == ["queued", "failed", "running"]
    assert json.loads((await store.row(guilty))["errors"])["reason"] == "blocked the event loop"
    # A claim that was revoked meanwhile is not blamed for what its old attempt does.
    (again,) = await store.claim(worker, innocent)
    row = await store.one(
        "unblock",
        worker=worker,
        ids=[innocent],
        fences=[again.fence - 1],
        place="x",
        max_losses=3,
        channel=store.database.channel,
    )
    assert (list(row["ids"]), (await store.row(innocent))["losses"]) == ([innocent], 0)


async def test_unblock_gives_neighbours_back_whatever_their_kinds_policy(store: Store) -> None:
    worker = await store.worker()
    await store.fetch(
        "register_kinds",
        names=["f"],
        on_worker_lost=["fail"],
        max_losses=[None],
        isolates=[True],
        hooks=[None],
        defaults=[None],
    )
    neighbour, guilty = await store.enqueue("f"), await store.enqueue()
    (_, claim) = await store.claim(worker, neighbour, guilty)
    await store.one(
        "unblock",
        worker=worker,
        ids=[guilty],
        fences=[claim.fence],
        place="x",
        max_losses=3,
        channel=store.database.channel,
    )
    rows = [await store.row(job) for job in (neighbour, guilty)]
    assert [(row["state"], row["losses"], row["attempt"]) for row in rows] == [("queued", 0, 0), ("queued", 1, 0)]


async def test_the_dead_are_rescued_at_once_and_nobody_else(store: Store) -> None:
    dead, alive = await store.worker("d"), await store.worker("a")
    lost, held = await store.enqueue(), await store.enqueue()
    await store.claim(dead, lost)
    await store.claim(alive, held)
    rows = await store.fetch("rescue_dead", workers=[dead], max_losses=3, channel=store.database.channel)
    assert [row["id"] for row in rows] == [lost]
    assert await store.states(lost, held) == ["queued", "running"]
    assert ((await store.row(lost))["losses"], (await store.row(lost))["attempt"]) == (1, 0)


async def test_a_supervisor_vouches_for_the_living_in_one_statement_but_never_for_the_gone(store: Store) -> None:
    ids = [await store.worker(name) for name in "abc"]
    for worker in ids:
        await store.silence(worker)
    await store.fetch("workers_gone", workers=[ids[2]])
    await store.fetch("vouch", workers=ids)
    fresh = "SELECT array_agg(id ORDER BY id) FROM {s}.workers WHERE seen_at > clock_timestamp() - interval '5 s'"
    assert await store.value(fresh) == ids[:2]


async def test_a_worker_told_to_drain_leaves_by_itself(make_app: Callable[..., Rowlock]) -> None:
    app = make_app()
    async with app.worker(name="leaver") as worker:
        assert worker is not None
        await app.workers.drain("leaver")
        await in_time(worker.stopped.wait())
        assert worker.dismissed
    assert await app.workers.list() == []


# --- one process -----------------------------------------------------------------------------------------------------

SAYS = """
import os, sys
from rowlock.flow.supervise import control_line
line = control_line.line_from(os.environ)
assert control_line.VARIABLE not in os.environ
line.open()
line.send(worker=7)
line.send(sign=1.5)
line.send(over="enough")
sys.exit(int(sys.argv[1]))
"""


async def test_a_place_hears_its_process_to_the_end_and_plans_the_next_start() -> None:
    process = WorkerProcess(1, [sys.executable, "-c", SAYS, "3"])
    for failures, delay in ((1, 0.0), (2, 0.5), (3, 1.0)):
        process.start()

        async def ended() -> int | None:
            return process.ended()

        assert await eventually(ended) == 3
        process.line.close()
        assert (process.worker_id, process.blocked, process.end_reason, process.running) == (7, 1.5, "enough", False)
        assert (process.plan_restart(failed=True), process.failures) == (delay, failures)
    assert (process.plan_restart(failed=False), process.failures) == (0.0, 0)
    process.began -= 3600
    assert (process.plan_restart(failed=True), process.failures) == (0.0, 1)  # it had lived long: no crash loop


async def test_a_process_the_system_has_no_room_for_is_tried_again(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def rescue(workers: Sequence[int]) -> None:
        raise AssertionError(workers)

    supervisor = Supervisor(Database(database_url), ["/nowhere"], Settings(processes=2), rescue=rescue)
    running = asyncio.create_task(supervisor.run())

    async def said() -> bool:
        return "process 2 cannot be started" in caplog.text

    await eventually(said)
    assert not running.done()
    supervisor.stop()
    assert await in_time(running) is None


def test_a_supervisor_that_does_not_read_holds_up_nobody() -> None:
    ours, theirs = socket.socketpair()
    line = control_line.SupervisorLine(theirs, 1, os.getpid())
    for _ in range(20_000):
        line.report_alive(0.0)
    ours.close()
    line.report_alive(0.0)
    theirs.close()
