"""What ends a process, and what only looks like it."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest
from tests.cli.processes import ended, lines_until
from tests.waiting import let_others_run, until

from rowlock import Retry, Rowlock, State
from rowlock.flow.run.process_exits import raised_by_signal, run_through_exits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = """
import asyncio
from rowlock import Retry, Rowlock

app = Rowlock()


async def leave(how):
    await asyncio.sleep(0)
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt}[how]("of the handler")


@app.job("leaves", retry=Retry(attempts=1))
async def leaves(how: str, task: bool) -> None:
    await (asyncio.create_task(leave(how)) if task else leave(how))


@app.job("stays", retry=Retry(attempts=1))
async def stays() -> str:
    await asyncio.sleep(3600)
    return "done"
"""


def _leave(*_: object) -> NoReturn:
    raise SystemExit(0)


def caught(raiser: Callable[[], object]) -> BaseException:
    try:
        raiser()
    except BaseException as error:  # noqa: BLE001 - what is asked for
        return error
    raise AssertionError


def exit_by_itself() -> NoReturn:
    raise SystemExit(0)


def interrupt_by_itself() -> NoReturn:
    raise KeyboardInterrupt


def send_to_myself(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_BLOCK, ())  # Python runs its handlers between two calls


def test_an_exit_is_a_signals_only_if_its_handler_raised_it() -> None:
    was = signal.getsignal(signal.SIGTERM)
    try:
        for handler in (_leave, functools.partial(_leave, 1)):
            signal.signal(signal.SIGTERM, handler)
            assert raised_by_signal(caught(lambda: send_to_myself(signal.SIGTERM)))
            assert not raised_by_signal(caught(exit_by_itself))
            assert not raised_by_signal(ValueError())
    finally:
        signal.signal(signal.SIGTERM, was)


def test_a_keyboard_interrupt_is_ctrl_c_where_python_handles_it_and_the_handlers_own_elsewhere() -> None:
    was = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert raised_by_signal(caught(interrupt_by_itself))
        signal.signal(signal.SIGINT, lambda *_: None)
        assert not raised_by_signal(caught(interrupt_by_itself))
    finally:
        signal.signal(signal.SIGINT, was)


@pytest.mark.parametrize("exit_class", [SystemExit, KeyboardInterrupt])
async def test_the_loop_goes_on_when_a_task_beside_it_exits(exit_class: type[BaseException]) -> None:
    async def leave() -> None:
        await let_others_run()
        raise exit_class

    async def main() -> str:
        task = asyncio.create_task(leave())
        await asyncio.wait({task})
        return type(task.exception()).__name__

    def run() -> str:
        with asyncio.Runner() as runner:
            return run_through_exits(runner, main())

    assert await asyncio.to_thread(run) == exit_class.__name__


async def test_the_main_task_may_exit() -> None:
    async def main() -> None:
        await let_others_run()
        raise SystemExit(3)

    def run() -> None:
        with asyncio.Runner() as runner:
            run_through_exits(runner, main())

    with pytest.raises(SystemExit):
        await asyncio.to_thread(run)


async def test_a_worker_outlives_handlers_that_exit_and_gives_everything_back_in_the_end(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowlock", "worker", "--app", "program:app"),
        cwd=tmp_path,
        env={**os.environ, "ROWLOCK_DATABASE_URL": database_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with Rowlock(database_url) as app:
        await lines_until(process.stderr, "started with lanes")
        stays = (await app.jobs.submit("stays", {})).job
        ids = [
            (await app.jobs.submit("leaves", {"how": how, "task": task})).job.id
            for how in ("exit", "interrupt")
            for task in (False, True)
        ]
        left = [await app.jobs.wait(job_id, timeout=60) for job_id in ids]
        assert [(job.state, job.errors["type"] if job.errors else None) for job in left] == [
            (State.FAILED, name) for name in ("SystemExit", "SystemExit", "KeyboardInterrupt", "KeyboardInterrupt")
        ]
        assert (await app.jobs.get(stays.id)).state is State.RUNNING
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0
        job = await app.jobs.get(stays.id)
        assert (job.state, job.attempt) == (State.QUEUED, 0)
        assert await app.workers.list() == []


async def test_a_worker_in_a_thread_outlives_a_task_that_exits(app: Rowlock) -> None:
    seen: list[str] = []

    @app.job("leaves", retry=Retry(attempts=1))
    async def leaves(how: str) -> None:
        async def leave() -> None:
            await let_others_run()
            raise {"exit": SystemExit, "interrupt": KeyboardInterrupt}[how]

        await asyncio.create_task(leave())

    @app.job("stays")
    async def stays() -> None:
        seen.append("ran")

    thread = await asyncio.to_thread(app.start_worker)
    try:
        jobs = [await app.jobs.wait((await leaves.enqueue(how)).id, timeout=60) for how in ("exit", "interrupt")]
        assert [job.state for job in jobs] == [State.FAILED, State.FAILED]
        await stays.enqueue()
        await until(lambda: seen)
    finally:
        await asyncio.to_thread(thread.stop)
