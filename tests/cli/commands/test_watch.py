from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.processes import drain, ended, lines_until
from tests.waiting import eventually

from rowlock import Rowlock
from rowlock.cli.screen.progress_text import detail, left_text, moved, pace, rate_text
from rowlock.desk.follow.watch import Pace, Watch, WatchedJob
from rowlock.model.progress import Progress
from rowlock.model.state import State

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)
pytestmark = pytest.mark.timeout(120)


def seen(state: State = State.RUNNING, **values: Any) -> WatchedJob:  # noqa: ANN401 - fields of many types
    given: dict[str, Any] = {
        "id": 7,
        "kind": "greet",
        "state": state,
        "attempt": 1,
        "max_attempts": 5,
        "fence": 1,
        "seq": 1,
        "lane": None,
        "worker": None,
        "cancel_requested": False,
        "run_after": NOON,
        "claimed_at": None,
        "finished_at": None,
        "seen_at": NOON,
        "error": {},
    }
    return WatchedJob(**given | values)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (seen(), "attempt 1 of 5"),
        (seen(progress=Progress("load", 2, 4, "half")), "load 2/4 50% half"),
        (seen(attempt=2, cancel_requested=True, progress=Progress(None, 7)), "attempt 2 of 5, cancel requested, 7"),
        (seen(State.QUEUED, attempt=0), "due"),
        (seen(State.QUEUED, run_after=NOON + timedelta(seconds=30)), "due in 30 s, attempt 2 of 5"),
        (seen(State.PENDING), "awaits approval"),
        (seen(State.COMPLETED, claimed_at=NOON, finished_at=NOON + timedelta(seconds=3.21)), "after 3.2s"),
        (seen(State.FAILED, error={"reason": "failed", "type": "ValueError", "message": "no"}), "ValueError: no"),
        (seen(State.EXPIRED), ""),
    ],
)
def test_a_job_is_told_in_few_words(one: WatchedJob, text: str) -> None:
    assert detail(one) == text
    assert moved(seen(State.BLOCKED), one).startswith(f"blocked → {one.state}")


def test_rates_and_rests_are_told_in_units_that_read_well() -> None:
    assert [rate_text(rate) for rate in (0.05, 0.5, 9.94, 1234.5)] == ["3.0/min", "0.5/s", "9.9/s", "1234/s"]
    rests = [left_text(timedelta(seconds=seconds)) for seconds in (4, 119, 600, 7260)]
    assert rests == ["4 s", "119 s", "10 min", "2 h 01 min"]
    assert pace(seen(rate=2.0, eta=timedelta(seconds=9))) == "2.0/s, 9 s left"
    assert pace(seen(State.QUEUED, rate=2.0)) == ""


def test_the_pace_is_that_of_the_last_half_minute_and_starts_anew_when_a_counter_goes_back() -> None:
    pace = Pace((1, "load"))
    for second in range(100):
        pace.mark(NOON + timedelta(seconds=second), second if second < 60 else 60 + 10 * (second - 60))
    assert pace.rate(NOON + timedelta(seconds=101)) == pytest.approx(10)
    assert pace.rate(NOON + timedelta(seconds=120)) is None  # who reports each second and falls silent has no pace
    pace.mark(NOON + timedelta(seconds=200), 1)
    assert pace.rate(NOON + timedelta(seconds=200)) is None
    pace.mark(NOON + timedelta(seconds=202), 5)
    assert pace.rate(NOON + timedelta(seconds=203)) == 2


async def test_a_watch_hears_of_the_end_at_once_and_leaves_no_trace(app: Rowlock, database_url: str) -> None:
    other = Rowlock(database_url)

    @other.job
    async def greet() -> None: ...

    job = await greet.options(run_in="1h").enqueue()
    looks = Watch(app.database(), [job.id]).looks()
    assert [one.state for one in await anext(looks)] == [State.QUEUED]
    await other.jobs.cancel(job.id)
    states = [one.state async for look in looks for one in look]
    assert states[-1] == State.CANCELLED
    assert await app.database().fetch("forget_jobs", ids=[job.id], waiter="00000000-0000-0000-0000-000000000000") == []
    await other.close()


async def test_everything_that_runs_is_watched_until_it_ended(app: Rowlock, database_url: str) -> None:
    other, go_on = Rowlock(database_url), asyncio.Event()

    @other.job
    async def greet() -> None:
        await go_on.wait()

    async with other.worker():
        job = await greet.enqueue()
        looks = Watch(app.database()).looks()

        async def seen_in(state: State) -> bool:
            return [(one.id, one.state) for one in await anext(looks)] == [(job.id, state)]

        await eventually(lambda: seen_in(State.RUNNING))
        go_on.set()
        await eventually(lambda: seen_in(State.COMPLETED))
        assert await anext(looks) == []
    await other.close()


async def test_a_pipe_gets_plain_lines_and_the_exit_code_tells(cli: Cli) -> None:
    public_id, step = await cli.enqueue("count", step=str(cli.folder / "step")), cli.folder / "step"
    watcher = await cli.start("jobs", "watch", public_id, TERM="xterm-256color")
    await lines_until(watcher.stdout, f"{public_id}  count  queued due")
    worker = await cli.start("worker", "--app", "tasks:app")
    await lines_until(watcher.stdout, "queued → running")
    lines = []
    for number in (1, 2):
        step.with_name(f"step{number}").touch()
        lines += await lines_until(watcher.stdout, f"running load {number}/3 ")
    step.with_name("step3").touch()
    code, out, err = await ended(watcher)
    assert (code, err) == (0, "")
    assert "running → completed after" in out
    assert "\x1b" not in "".join(lines) + out
    assert "load 2/3 67% row 2" in "".join(lines)
    worker.send_signal(signal.SIGTERM)
    await ended(worker)


async def test_json_streams_one_object_per_change(cli: Cli, app: Rowlock) -> None:
    public_id = await cli.enqueue("pay", amount=1)
    watcher = await cli.start("jobs", "watch", public_id, "--json")
    (first,) = await lines_until(watcher.stdout, "pending")
    await app.jobs.reject(public_id)
    code, out, err = await ended(watcher)
    assert (code, err) == (1, "")
    changes = [json.loads(line) for line in [first, *out.splitlines()]]
    assert [(one["id"], one["previous"], one["state"]) for one in changes] == [
        (public_id, None, "pending"),
        (public_id, "pending", "cancelled"),
    ]
    assert changes[-1]["errors"] == {"reason": "rejected"}


async def test_several_jobs_end_with_a_count_and_code_1_when_one_failed(cli: Cli) -> None:
    good, bad = await cli.enqueue("greet", name="Ada"), await cli.enqueue("explode")
    await cli("run-job", good, "--app", "tasks:app")
    await cli("run-job", bad, "--app", "tasks:app")
    answer = await cli("jobs", "watch", good, bad)
    assert answer.code == 1
    assert "failed after" in answer.out
    assert "ValueError: out of paper" in answer.out
    assert answer.out.endswith("1 of 2 jobs succeeded.\n")


async def test_ctrl_c_leaves_the_job_alone_and_the_terminal_as_it_was(cli: Cli, app: Rowlock) -> None:
    public_id = await cli.enqueue("pay", amount=1)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130)):
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rowlock", "jobs", "watch", public_id),
            cwd=cli.folder,
            env=cli.environment | {"TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": "1"},
            stdin=theirs,
            stdout=theirs,
            stderr=asyncio.subprocess.PIPE,
        )
        os.close(theirs)
        try:
            began = await asyncio.to_thread(os.read, ours, 65536)
            while b"pending" not in began:
                began += await asyncio.to_thread(os.read, ours, 65536)
            process.send_signal(number)
            rest = await asyncio.to_thread(drain, ours)
            _, err = await process.communicate()
        finally:
            # A thread that reads its terminal would outlive a test that failed.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        assert (process.returncode, err.decode()) == (code, "")
        drawn = began.decode() + rest
        assert public_id in drawn
        assert drawn.rindex("\x1b[?25h") > drawn.index("\x1b[?25l")  # the cursor is back
        assert "\x1b[35m" not in drawn  # NO_COLOR: pending would be magenta
    assert (await app.jobs.get(public_id)).state == State.PENDING


async def test_an_unknown_job_is_refused(cli: Cli) -> None:
    answer = await cli("jobs", "watch", "7")
    assert (answer.code, answer.out) == (1, "")
    assert "There is no job" in answer.err
