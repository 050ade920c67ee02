"""Blocking code: the bridge from plain threads, thread pools, forked children and programs that end at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.store.callers.neighbours import dialect
from tests.waiting import eventually

from rowlock import Rowlock, RowlockError, Task
from rowlock.bridge import Bridge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def greet(app: Rowlock) -> Task[[str], None]:
    @app.job
    async def greet(name: str) -> None: ...

    return greet


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as app:
        yield app


def bridges() -> int:
    return sum(thread.name == "rowlock-bridge" for thread in threading.enumerate())


async def names(app: Rowlock) -> list[str]:
    return sorted(str(job.args["name"]) for job in await app.jobs.list(limit=1000))


def run_script(body: str, *arguments: str) -> str:
    """Run a program of its own; a hang dumps every thread and fails."""
    head = """
        import faulthandler, os, sys, threading
        faulthandler.dump_traceback_later(40, exit=True)
        from rowlock import Rowlock
        app = Rowlock(sys.argv[1])

        @app.job
        async def greet(name: str) -> None: ...
    """
    program = textwrap.dedent(head) + textwrap.dedent(body)
    # Since 3.12 a fork beside other threads, which is what some of these programs are about, earns a warning.
    command = [sys.executable, "-W", "ignore:This process", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def test_plain_threads_share_one_bridge(app: Rowlock) -> None:
    task, before = greet(app), bridges()
    threads = [threading.Thread(target=task.enqueue_sync, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await names(app) == [f"t{n}" for n in range(8)]
    assert bridges() == before + 1


async def test_a_thread_pool_of_a_running_loop_enqueues(app: Rowlock) -> None:
    task = greet(app)
    jobs = await asyncio.gather(*(asyncio.to_thread(task.enqueue_sync, f"p{n}") for n in range(20)))
    bulk = await asyncio.to_thread(task.enqueue_many_sync, [{"name": "bulk"}])
    assert len({job.id for job in [*jobs, *bulk]}) == 21
    assert await names(app) == sorted(["bulk", *(f"p{n}" for n in range(20))])


async def test_a_blocking_call_on_the_bridges_own_loop_is_refused() -> None:
    bridge = Bridge()

    async def inner() -> None:
        bridge.run(asyncio.sleep(0))

    with pytest.raises(RowlockError, match="await the asynchronous method"):
        await asyncio.to_thread(bridge.run, inner())
    bridge.close()


async def test_a_closed_bridge_starts_again(database_url: str) -> None:
    app = Rowlock(database_url)
    greet(app).enqueue_sync("before")
    await app.close()
    greet(app).enqueue_sync("after")
    assert await names(app) == ["after", "before"]
    await app.close()


async def test_two_applications_live_in_one_process(database_url: str, empty_database_url: str) -> None:
    first, second = Rowlock(database_url), Rowlock(empty_database_url, schema="other")
    await second.upgrade()
    greet(first).enqueue_sync("one")
    greet(second).enqueue_sync("two")
    await greet(second).enqueue("three")
    assert (await names(first), await names(second)) == (["one"], ["three", "two"])
    await first.close()
    greet(second).enqueue_sync("four")
    assert await names(second) == ["four", "three", "two"]
    await second.close()


async def test_a_forked_child_and_its_parent_both_enqueue(app: Rowlock, database_url: str) -> None:
    program = """
        greet.enqueue_sync("before")
        child = os.fork()
        if child == 0:
            for n in range(3):
                greet.enqueue_sync(f"child {n}")
            os._exit(0)
        greet.enqueue_sync("meanwhile")
        assert os.waitpid(child, 0)[1] == 0
        greet.enqueue_sync("after")
    """
    await asyncio.to_thread(run_script, program, database_url)
    assert await names(app) == ["after", "before", "child 0", "child 1", "child 2", "meanwhile"]


async def test_a_child_forked_while_a_thread_held_the_bridge_enqueues(app: Rowlock, database_url: str) -> None:
    program = """
        greet.enqueue_sync("before")
        held, let_go = threading.Event(), threading.Event()

        def hold():
            with app._bridge._lock:
                held.set()
                let_go.wait()

        threading.Thread(target=hold).start()
        held.wait()
        child = os.fork()
        if child == 0:
            greet.enqueue_sync("child")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        let_go.set()
    """
    await asyncio.to_thread(run_script, program, database_url)
    assert await names(app) == ["before", "child"]


ENDINGS = {
    "asyncio.run": 'import asyncio; asyncio.run(greet.enqueue("ada"))',
    "enqueue_sync": 'greet.enqueue_sync("ada")',
    "commit of a session": """
        import sqlalchemy
        from sqlalchemy.orm import Session
        with Session(sqlalchemy.create_engine(sys.argv[2])) as session:
            greet.options(session=session).enqueue_sync("ada")
            session.commit()
    """,
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_program_that_ends_at_once_still_wakes_workers(app: Rowlock, database_url: str, ending: str) -> None:
    heard: list[object] = []
    listener = await asyncpg.connect(database_url)
    await listener.add_listener("rowlock_events", lambda _c, _p, _n, payload: heard.append(payload))
    greet(app)
    async with app.worker():
        await asyncio.to_thread(run_script, ENDINGS[ending], database_url, dialect(database_url, "psycopg"))

        async def told() -> bool:
            return any('"greet"' in str(payload) for payload in heard)

        await eventually(told, within=10)
    await listener.close()


async def test_event_loops_that_ended_leave_no_connections_behind(app: Rowlock, database_url: str) -> None:
    program = """
        import asyncio
        for n in range(5):
            asyncio.run(greet.enqueue(f"loop {n}"))
        import psycopg
        with psycopg.connect(sys.argv[1]) as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'rowlock:client'"
            ).fetchone()
        print(count)
    """
    held = await asyncio.to_thread(run_script, program, database_url)
    assert await names(app) == [f"loop {n}" for n in range(5)]
    assert int(held) <= 2


async def test_what_an_interrupted_caller_waited_for_does_not_go_on(database_url: str) -> None:
    body = """
        import asyncio, signal
        from rowlock.bridge import Bridge

        ended = threading.Event()

        async def forever():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()
            finally:
                ended.set()

        try:
            Bridge().run(forever())
        except KeyboardInterrupt:
            print(ended.wait(20))
    """
    assert await asyncio.to_thread(run_script, body, database_url) == "True\n"


async def test_an_error_comes_out_of_the_bridge_as_it_was_raised() -> None:
    bridge = Bridge()

    async def failing() -> None:
        message = "as it is"
        raise LookupError(message)

    with pytest.raises(LookupError, match="as it is"):
        await asyncio.to_thread(bridge.run, failing())
    bridge.close()


@pytest.mark.filterwarnings("error")
async def test_a_blocking_call_on_a_running_loop_warns_at_the_line_of_the_caller(app: Rowlock) -> None:
    with pytest.warns(RuntimeWarning, match="Await the asynchronous method instead") as caught:
        app.sync.jobs.list()
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
async def test_a_blocking_call_in_a_thread_warns_of_nothing(app: Rowlock) -> None:
    assert len(await asyncio.to_thread(app.sync.jobs.list)) == 0
