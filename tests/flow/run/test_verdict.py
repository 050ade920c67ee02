from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from tests.waiting import eventually
from typing_extensions import override

import rowlock
from rowlock import Cancel, Partial, Retry, Snooze
from rowlock.errors import InvalidArguments, RateLimited
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    import asyncpg

    from rowlock import Rowlock
    from rowlock.model.job import Job
    from rowlock.tasks import Enqueued

ONCE = Retry(attempts=1)


async def ended(app: Rowlock, handle: Enqueued[object]) -> Job:
    return await app.jobs.wait(handle.id, timeout=15)


async def test_a_job_runs_and_its_result_comes_back_typed(app: Rowlock) -> None:
    @app.job
    async def add(first: int, second: int) -> dict[str, int]:
        return {"sum": first + second}

    async with app.worker():
        handle = await add.enqueue(2, second=3)
        assert await handle.wait(timeout=10) == {"sum": 5}
    job = await handle.job()
    assert (job.state, job.attempt, job.result) == (State.COMPLETED, 1, {"sum": 5})
    assert job.finished_at is not None


async def test_many_jobs_all_end_once(app: Rowlock) -> None:
    seen: list[int] = []

    @app.job
    async def note(n: int) -> None:
        seen.append(n)

    handles = await note.enqueue_many([{"n": n} for n in range(500)])
    async with app.worker():
        for handle in handles:
            await ended(app, handle)
    assert sorted(seen) == list(range(500))


async def test_snooze_runs_again_later_and_refunds_the_attempt(app: Rowlock) -> None:
    runs: list[int] = []

    @app.job(retry=ONCE)
    async def patient(ctx: rowlock.Context) -> str | Snooze:
        runs.append(ctx.job.attempt)
        return Snooze("50ms") if len(runs) < 3 else "done"

    async with app.worker():
        handle = await patient.enqueue()
        assert await handle.wait(timeout=10) == "done"
    history = await app.jobs.history(handle.id)
    assert runs == [1, 1, 1]
    assert history.job.attempt == 1
    assert [attempt.outcome for attempt in history.attempts] == ["snoozed", "snoozed"]


def snoozes() -> object:
    return Snooze("1ms")


def asks_to_come_back() -> object:
    return RateLimited("1ms")


def is_limited() -> object:
    raise RateLimited("1ms")


@pytest.mark.parametrize(
    ("put_off", "reason"),
    [
        (snoozes, "snoozed too often"),
        (asks_to_come_back, "limited too often"),
        (is_limited, "limited too often"),
    ],
)
async def test_a_job_that_was_put_off_ten_thousand_times_fails_the_next_time_and_says_why(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], put_off: Callable[[], object], reason: str
) -> None:
    runs: list[int] = []

    @app.job
    async def restless(ctx: rowlock.Context) -> object:
        runs.append(ctx.job.attempt)
        return put_off()

    handle = await restless.enqueue()
    await sql.execute("UPDATE jobs SET refunds = 9999 WHERE id = $1", handle.id)
    async with app.worker():
        job = await ended(app, handle)
    assert runs == [1, 1]  # put off for the ten thousandth time, and once more
    assert (job.state, await sql.fetchval("SELECT refunds FROM jobs WHERE id = $1", handle.id)) == ("failed", 10_000)
    assert job.errors is not None
    assert (job.errors["reason"], job.errors["snoozes"]) == (reason, 10_000)
    assert "was put off 10,000 times" in str(job.errors["message"])
    assert "the limit is 10,000. Use a schedule, or have the job enqueue its successor" in str(job.errors["message"])


async def test_a_handler_can_cancel_its_job(app: Rowlock) -> None:
    @app.job
    async def pointless() -> Cancel:
        return Cancel("nothing to do\x00")

    async with app.worker():
        job = await ended(app, await pointless.enqueue())
    assert job.state is State.CANCELLED
    assert job.errors == {"reason": "nothing to do\ufffd"}


async def test_partial_success_keeps_result_and_errors(app: Rowlock) -> None:
    @app.job
    async def mostly(token: SecretStr) -> Partial:
        return Partial({"done": 2}, [ValueError("third is broken"), f"nul \x00 and {token.get_secret_value()}"])

    async with app.worker():
        handle = await mostly.enqueue(token=SecretStr("hunter22"))
        assert await handle.wait(timeout=10) is not None
    job = await handle.job()
    assert job.state is State.COMPLETED_WITH_ERRORS
    assert job.result == {"done": 2}
    assert job.errors is not None
    assert "third is broken" in str(job.errors["errors"])
    assert "hunter22" not in str(job.errors)


async def test_a_result_that_is_no_json_fails_with_a_reason(app: Rowlock) -> None:
    @app.job
    async def odd() -> object:
        return object()

    async with app.worker():
        job = await ended(app, await odd.enqueue())
    assert job.state is State.FAILED
    assert job.errors is not None
    assert job.errors["reason"] == "unserialisable result"
    assert "cannot be stored as JSON" in str(job.errors["message"])


async def test_a_handler_that_enqueues_wrongly_failed_itself(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def parent() -> None:
        raise InvalidArguments("the child takes a number")

    async with app.worker():
        job = await ended(app, await parent.enqueue())
    assert job.attempt == 2
    assert job.errors is not None
    assert job.errors["reason"] == "attempts exhausted"


async def test_exceptions_of_every_ugliness_are_stored(app: Rowlock) -> None:
    class Mute(Exception):
        @override
        def __str__(self) -> str:
            raise RuntimeError

    @app.job(retry=ONCE)
    async def mute() -> None:
        raise Mute

    @app.job(retry=ONCE)
    async def huge() -> None:
        raise ValueError("x" * 20_000_000)

    @app.job(retry=ONCE)
    async def nul() -> None:
        raise ValueError("before\x00after \ud800")

    async with app.worker():
        silent, long, odd = [await ended(app, await task.enqueue()) for task in (mute, huge, nul)]
    assert {silent.state, long.state, odd.state} == {State.FAILED}
    assert silent.errors is not None
    assert silent.errors["message"] == "(its message cannot be printed)"
    assert long.errors is not None
    assert len(str(long.errors["message"])) < 3000
    assert "characters left out" in str(long.errors["message"])
    assert len(str(long.errors["traceback"])) < 20_000
    assert odd.errors is not None
    assert str(odd.errors["message"]).startswith("before\ufffdafter")


REFUSAL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no such thing as bad' USING ERRCODE = '22P02'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW WHEN (NEW.result = '"bad"') EXECUTE FUNCTION refuse();
"""


async def test_an_outcome_that_a_trigger_refuses_waits_until_it_is_taken_and_its_neighbours_do_not(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], caplog: pytest.LogCaptureFixture
) -> None:
    start = asyncio.Event()

    @app.job(retry=ONCE)
    async def say(ctx: rowlock.Context, text: str) -> str | Snooze:
        await start.wait()
        return Snooze("10ms") if text == "later" and ctx.job.fence < 2 else text

    await sql.execute(REFUSAL)
    texts = ["0", "1", "bad", "later", "2"]
    handles = {text: await say.enqueue(text) for text in texts}
    async with app.worker():
        await eventually(lambda: running(app, 5))
        start.set()
        bad = handles.pop("bad")
        assert [await handle.wait(timeout=20) for handle in handles.values()] == ["0", "1", "later", "2"]
        assert await (await say.enqueue("after")).wait(timeout=20) == "after"
        assert (await bad.job()).state == "running"
        await sql.execute("DROP TRIGGER refuse ON jobs")
        assert await bad.wait(timeout=20) == "bad"
    assert "no such thing as bad" in caplog.text
    assert "refused the outcome" not in caplog.text


async def running(app: Rowlock, n: int) -> bool:
    return sum((await app.lanes.running()).values()) == n


async def test_secrets_of_the_arguments_are_not_in_errors(app: Rowlock) -> None:
    @app.job(retry=ONCE)
    async def login(password: SecretStr) -> None:
        raise PermissionError(f"401 for password={password.get_secret_value()}")

    async with app.worker():
        job = await ended(app, await login.enqueue(SecretStr("correct horse")))
    assert job.errors is not None
    assert "401 for password=" in str(job.errors["message"])
    assert "correct horse" not in str(job.errors)


async def test_sys_exit_ends_the_attempt_and_not_the_worker(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def script() -> None:
        sys.exit(3)

    @app.job
    async def neighbour() -> str:
        return "alive"

    async with app.worker():
        job = await ended(app, await script.enqueue())
        assert await (await neighbour.enqueue()).wait(timeout=10) == "alive"
    assert (job.state, job.attempt) == (State.FAILED, 2)
    assert job.errors is not None
    assert job.errors["type"] == "SystemExit"


async def test_a_cancellation_from_inside_the_handler_is_retried_like_any_failure(app: Rowlock) -> None:
    runs: list[int] = []

    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def inner(ctx: rowlock.Context) -> str:
        runs.append(ctx.job.attempt)
        if len(runs) == 1:
            lost = asyncio.get_running_loop().create_future()
            lost.cancel()
            await lost
        return "done"

    async with app.worker():
        assert await (await inner.enqueue()).wait(timeout=10) == "done"
    assert runs == [1, 2]
