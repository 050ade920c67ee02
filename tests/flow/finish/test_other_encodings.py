"""A database whose encoding lacks characters stores what handlers raise, log and return with escapes."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.databases import at

import rowlock
from rowlock import Partial, Retry, Rowlock, State
from rowlock.model.redact import in_ascii, json_in_ascii
from rowlock.store.schema.migrate import upgrade

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg


@pytest.fixture(params=["LATIN1", "SQL_ASCII"])
async def foreign(
    request: pytest.FixtureRequest, administrator: psycopg.Connection[Any], server_url: str
) -> AsyncIterator[Rowlock]:
    """An application on a database in another encoding than UTF-8."""
    name = f"test_{uuid.uuid4().hex}"
    administrator.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{request.param}' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        await upgrade(at(server_url, name), schema="rowlock")
        async with Rowlock(at(server_url, name)) as app:
            yield app
    finally:
        administrator.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_an_error_that_cannot_be_stored_as_it_is_costs_one_attempt(foreign: Rowlock) -> None:
    @foreign.job(retry=Retry(attempts=3, minimum="0s", jitter="0s"))
    async def work(ctx: rowlock.Context) -> str:
        if ctx.job.attempt < 3:
            message = "中 \x00 \ud800"
            raise ValueError(message)
        return "done"

    async with foreign.worker():
        neighbours = [await work.enqueue() for _ in range(3)]
        assert [await one.wait(timeout=60) for one in neighbours] == ["done"] * 3
    history = await foreign.jobs.history(neighbours[0].id)
    assert [(one.outcome, one.attempt) for one in history.attempts] == [("failed", 1), ("failed", 2)]
    error = history.attempts[0].error
    assert error is not None
    assert str(error["message"]).startswith("\\u4e2d ")
    assert "\\u4e2d" in str(error["traceback"])


async def test_the_last_failure_keeps_its_reason(foreign: Rowlock) -> None:
    @foreign.job(retry=Retry(attempts=1))
    async def work() -> None:
        raise ValueError("中")

    async with foreign.worker():
        job = await foreign.jobs.wait((await work.enqueue()).id, timeout=60)
    assert job.errors is not None
    assert (job.state, job.errors["reason"], job.errors["message"]) == (State.FAILED, "failed", "\\u4e2d")


async def test_a_result_is_stored_with_escapes_and_says_so(foreign: Rowlock) -> None:
    @foreign.job(retry=Retry(attempts=2))
    async def work(partial: bool) -> dict[str, str]:
        result = {"plain": "a", "中": "x中"}
        return Partial(result, ["first"]) if partial else result  # type: ignore[return-value]  # as documented

    async with foreign.worker():
        for partial in (False, True):
            job = await foreign.jobs.wait((await work.enqueue(partial=partial)).id, timeout=60)
            if job.result == {"plain": "a", "中": "x中"}:
                assert job.state is (State.COMPLETED_WITH_ERRORS if partial else State.COMPLETED)
                continue  # SQL_ASCII takes every byte of a text, though no escape in it
            assert (job.state, job.attempt) == (State.COMPLETED_WITH_ERRORS, 1)
            assert job.result == {"plain": "a", "\\u4e2d": "x\\u4e2d"}
            assert job.errors is not None
            assert job.errors["reason"] == "result changed"
            texts = ["first"] * partial + ["the database's encoding lacks characters of the result: escaped"]
            assert job.errors["errors"] == texts


async def test_progress_items_and_logs_are_stored_with_escapes(
    foreign: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    @foreign.job(retry=Retry(attempts=1), logs="INFO")
    async def work(ctx: rowlock.Context) -> None:
        async with ctx.phase("相"):
            ctx.log.warning("行")
            async with ctx.item("項"):
                await ctx.progress(1, 2, "中")

    async with foreign.worker():
        job = await foreign.jobs.wait((await work.enqueue()).id, timeout=60)
    assert job.state is State.COMPLETED
    assert job.progress is not None
    assert (job.progress.phase, job.progress.message) == (in_ascii("相"), in_ascii("中"))
    assert [line.message for line in await foreign.jobs.logs(job.id)] == [in_ascii("行")]
    assert [item.name for item in await foreign.jobs.items(job.id)] == [in_ascii("項")]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_only_what_is_outside_ascii_is_escaped() -> None:
    assert in_ascii("a ü 中 😀") == "a \\xfc \\u4e2d \\U0001f600"
    assert json_in_ascii('{"a":  [1, "b"]}') == '{"a":  [1, "b"]}'
    assert json_in_ascii('["ü", {"ü": null}]') == '["\\\\xfc", {"\\\\xfc": null}]'
