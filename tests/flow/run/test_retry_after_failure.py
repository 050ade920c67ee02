from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import promptly, until_cancelled

import rowlock
from rowlock import Retry
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock import Rowlock

AT_ONCE = Retry(attempts=3, minimum="0s", jitter="0s")


async def test_a_failing_job_is_tried_until_its_attempts_are_used_up(app: Rowlock) -> None:
    @app.job(retry=AT_ONCE)
    async def fail(ctx: rowlock.Context) -> None:
        raise OSError(f"number {ctx.job.attempt}")

    async with app.worker(name="ada"):
        handle = await fail.enqueue()
        await app.jobs.wait(handle.id, timeout=15)
    history = await app.jobs.history(handle.id)
    assert (history.job.state, history.job.attempt) == (State.FAILED, 3)
    assert history.job.errors is not None
    assert (history.job.errors["reason"], history.job.errors["message"]) == ("attempts exhausted", "number 3")
    assert [(a.attempt, a.outcome, a.worker) for a in history.attempts] == [(1, "failed", "ada"), (2, "failed", "ada")]
    assert [a.error["message"] for a in history.attempts if a.error] == ["number 1", "number 2"]
    assert "in fail" in str(history.attempts[0].error)


async def test_only_the_named_exceptions_are_tried_again(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=5, minimum="0s", jitter="0s", on=(OSError,), never=(FileNotFoundError,)))
    async def fail(name: str) -> None:
        raise {"value": ValueError, "missing": FileNotFoundError, "os": OSError}[name]

    async with app.worker():
        handles = [await fail.enqueue(name) for name in ("value", "missing", "os")]
        jobs = [await app.jobs.wait(handle.id, timeout=15) for handle in handles]
    assert [job.attempt for job in jobs] == [1, 1, 5]
    assert [job.errors and job.errors["reason"] for job in jobs] == ["not retried", "not retried", "attempts exhausted"]


async def test_a_function_may_choose_the_delay_or_stop(app: Rowlock) -> None:
    asked: list[tuple[int, str]] = []

    def delay(attempt: int, error: BaseException) -> float | None:
        asked.append((attempt, str(error)))
        return None if attempt == 2 else 0.01

    @app.job(retry=Retry(attempts=9, delay=delay))
    async def fail() -> None:
        raise ValueError("no")

    async with app.worker():
        job = await app.jobs.wait((await fail.enqueue()).id, timeout=15)
    assert asked == [(1, "no"), (2, "no")]
    assert (job.state, job.attempt) == (State.FAILED, 2)


async def test_a_broken_delay_function_ends_the_job_and_not_the_worker(app: Rowlock) -> None:
    def delay(_attempt: int, _error: BaseException) -> float | None:
        raise ZeroDivisionError

    @app.job(retry=Retry(attempts=9, delay=delay))
    async def fail() -> None:
        raise ValueError("no")

    async with app.worker():
        job = await app.jobs.wait((await fail.enqueue()).id, timeout=15)
        again = await app.jobs.wait((await fail.enqueue()).id, timeout=15)
    assert (job.state, again.state) == (State.FAILED, State.FAILED)


async def test_an_error_may_ask_for_its_own_delay(app: Rowlock) -> None:
    class TooManyRequests(Exception):
        retry_after = 0.7

    @app.job(retry=AT_ONCE)
    async def ask(ctx: rowlock.Context) -> None:
        if ctx.job.attempt == 1:
            raise TooManyRequests

    async with app.worker():
        handle = await ask.enqueue()
        await handle.wait(timeout=30)
    history = await app.jobs.history(handle.id)
    # Both by the database's clock.
    delay = history.job.run_after - history.attempts[0].ended_at
    assert delay.total_seconds() == pytest.approx(0.7, abs=0.05)


async def test_a_retry_starts_when_it_is_due_and_not_at_the_next_poll(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=2, minimum="1.3s", jitter="0s"))
    async def again(ctx: rowlock.Context) -> None:
        if ctx.job.attempt == 1:
            raise OSError

    async def late() -> float:
        handle = await again.enqueue()
        await handle.wait(timeout=30)
        job = await handle.job()
        assert job.claimed_at is not None
        assert job.claimed_at >= job.run_after
        return (job.claimed_at - job.run_after).total_seconds()

    async with app.worker():
        await promptly(late, under=0.5, tries=5)


async def test_a_call_may_allow_more_attempts_than_its_kind(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=1, minimum="0s", jitter="0s"))
    async def fail() -> None:
        raise ValueError

    async with app.worker():
        job = await app.jobs.wait((await fail.options(max_attempts=4).enqueue()).id, timeout=15)
    assert job.attempt == 4


async def test_an_attempt_that_takes_too_long_is_cancelled_and_counts(app: Rowlock) -> None:
    cancelled: list[int] = []

    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"), timeout="200ms")
    async def slow(ctx: rowlock.Context) -> None:
        assert ctx.deadline is not None
        try:
            await until_cancelled()
        except asyncio.CancelledError:
            cancelled.append(ctx.job.attempt)
            raise

    async with app.worker():
        job = await app.jobs.wait((await slow.enqueue()).id, timeout=15)
    assert cancelled == [1, 2]
    assert job.errors is not None
    assert (job.errors["type"], job.errors["message"]) == (
        "TimeoutError",
        "the attempt took longer than its timeout of 0.2 s",
    )


async def test_a_person_gives_a_failed_job_a_new_budget(app: Rowlock) -> None:
    runs: list[int] = []

    @app.job(retry=AT_ONCE)
    async def third(ctx: rowlock.Context) -> str:
        runs.append(ctx.job.attempt)
        if len(runs) <= 4:
            raise OSError
        return "at last"

    async with app.worker():
        handle = await third.enqueue()
        await app.jobs.wait(handle.id, timeout=15)
        await app.jobs.retry(handle.id, by="ada")
        assert await handle.wait(timeout=15) == "at last"
    assert runs == [1, 2, 3, 1, 2]
    outcomes = [attempt.outcome for attempt in (await app.jobs.history(handle.id)).attempts]
    assert outcomes == ["failed", "failed", "failed", "failed"]
