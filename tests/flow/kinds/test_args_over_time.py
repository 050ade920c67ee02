"""Old code and new code as two apps on one database: what a deploy looks like while it rolls."""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr
from tests.waiting import eventually

from rowlock.errors import UniqueConflict
from rowlock.model.kind import Gate
from rowlock.model.lane import Lane
from rowlock.model.notify_messages import encode_wake_up
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncpg

    from rowlock import Rowlock, Task

    Sql = asyncpg.Connection[asyncpg.Record]

PAUSES = (4.0, 7.0, 11.0, 19.0, 35.0)
"""Seconds between the tries of one worker alone, at least: a pause of its own and a moment left to others."""


def old_code(app: Rowlock, **says: Any) -> Task[[str], str]:  # noqa: ANN401 - the options of app.job
    @app.job("report", **says)
    async def report(org: str) -> str:
        return f"old {org}"

    return report


def new_code(app: Rowlock, **says: Any) -> Task[[int], str]:  # noqa: ANN401 - as above
    @app.job("report", version=2, **says)
    async def report(org_id: int) -> str:
        return f"new {org_id}"

    @report.upgrade(from_version=1)
    def numbered(args: dict[str, Any]) -> dict[str, Any]:
        return {"org_id": int(args["org"])}

    return report


def unread(sql: Sql, job_id: int, times: int = 1) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return bool(
            await sql.fetchval(
                "SELECT (errors #> '{unreadable,times}')::integer >= $2 AND state = 'queued' FROM jobs WHERE id = $1",
                job_id,
                times,
            )
        )

    return check


async def due_now(sql: Sql) -> None:
    await sql.execute("UPDATE jobs SET run_after = clock_timestamp() WHERE state = 'queued'")


async def test_an_old_worker_keeps_a_new_job_for_a_new_worker(make_app: Callable[..., Rowlock], sql: Sql) -> None:
    old, new = make_app(), make_app()
    old_code(old)
    handle = await new_code(new).enqueue(7)
    async with old.worker():
        await eventually(unread(sql, handle.id))
    job = await handle.job()
    assert (job.state, job.attempt, job.args, job.args_version) == (State.QUEUED, 0, {"org_id": 7}, 2)
    assert job.errors is not None
    assert job.errors["reason"] == "unreadable"
    assert (job.run_after - job.created_at).total_seconds() > 0.5
    why = await old.jobs.explain(job.id)
    assert why.codes[0] == "unreadable"
    assert "this code reads up to 1" in why.verdict
    await due_now(sql)
    async with new.worker():
        assert await handle.wait(timeout=15) == "new 7"
    history = await new.jobs.history(handle.id)
    assert [(run.outcome, run.attempt) for run in history.attempts] == [("unreadable", 1)]
    assert "They wait for a worker with newer code." in str((history.attempts[0].error or {})["message"])
    assert (history.job.attempt, history.job.errors) == (1, None)


async def test_a_new_worker_reads_what_old_code_enqueued(make_app: Callable[..., Rowlock]) -> None:
    old, new = make_app(), make_app()
    handle = await old_code(old).enqueue("7")
    new_code(new)
    async with new.worker():
        assert await handle.wait(timeout=15) == "new 7"


@pytest.mark.timeout(120)
async def test_nothing_is_lost_or_failed_in_the_middle_of_a_rolling_deploy(
    make_app: Callable[..., Rowlock], sql: Sql
) -> None:
    old, other, new = make_app(), make_app(), make_app()
    before, _, after = old_code(old), old_code(other), new_code(new)
    began = time.monotonic()
    async with old.worker(name="old"), other.worker(name="other"), new.worker(name="new"):
        first = await before.enqueue_many([{"org": str(n)} for n in range(20)])
        second = await after.enqueue_many([{"org_id": n} for n in range(20)])
        handles = [*first, *second]
        results = await asyncio.gather(*(handle.wait(timeout=90) for handle in handles))
    # Each old worker looks at a job once, and again only when everybody left it alone.
    most = 2 + int((time.monotonic() - began) / PAUSES[0])
    assert await sql.fetchval("SELECT max(fence) FROM jobs") <= 2 * (most + 1)
    # Old jobs may be run by either code, new ones by new code alone.
    assert [int(text.split()[1]) for text in results] == [*range(20), *range(20)]
    assert {text.split()[0] for text in results[20:]} == {"new"}
    assert {row[0] for row in await sql.fetch("SELECT attempt FROM jobs")} == {1}
    assert {row[0] for row in await sql.fetch("SELECT state FROM jobs")} == {"completed"}


async def test_jobs_nobody_can_read_are_tried_rarely_and_told_once(
    make_app: Callable[..., Rowlock], sql: Sql, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = make_app(), make_app()
    old_code(old)

    @old.job
    async def neighbour() -> str:
        return "ran"

    await new_code(new).enqueue_many([{"org_id": n} for n in range(60)])
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="rowlock"):
        async with old.worker():
            done = await neighbour.options(run_in="2s").enqueue()
            assert await done.wait(timeout=30) == "ran"
    elapsed = time.monotonic() - began
    allowed = 1 + sum(moment <= elapsed for moment in accumulate(PAUSES))
    rows = await sql.fetch(
        "SELECT attempt, fence, (errors #> '{unreadable,times}')::integer AS times FROM jobs WHERE kind = 'report'"
    )
    assert len(rows) == 60
    for row in rows:
        assert row["attempt"] == 0
        assert 1 <= row["times"] <= allowed
        assert row["fence"] == 2 * row["times"]  # a claim and its return, nothing else
    assert await sql.fetchval("SELECT count(*) FROM job_attempts WHERE outcome = 'unreadable'") == 60
    assert len([record for record in caplog.records if "cannot read its arguments" in record.message]) == 1


async def test_repeated_tries_add_no_attempt_rows_and_no_refunds(app: Rowlock, sql: Sql) -> None:
    handle = await old_code(app).enqueue("7")
    await sql.execute("""UPDATE jobs SET args = '{"$version": 2}'""")
    async with app.worker():
        for times, version in enumerate((2, 2, 3), 1):
            await eventually(unread(sql, handle.id, times))
            await sql.execute("UPDATE jobs SET args = jsonb_build_object('$version', $1::integer)", version)
            # Past the moment in which a worker leaves it to others.
            moment = await sql.fetchval(
                "UPDATE jobs SET run_after = clock_timestamp() - interval '4 s' RETURNING run_after"
            )
            await sql.execute(
                "SELECT pg_notify($1, $2)", app.database().channel, encode_wake_up({("report", 0, 0): moment})
            )
        await eventually(unread(sql, handle.id, 4))
    causes = [row[0] for row in await sql.fetch("SELECT error->>'cause' FROM job_attempts ORDER BY fence")]
    assert causes == ["version 2 is newer than 1", "version 3 is newer than 1"]
    assert await sql.fetchval("SELECT refunds FROM jobs") == 0


async def test_expiry_ends_a_job_nobody_can_read(make_app: Callable[..., Rowlock], sql: Sql) -> None:
    old, new = make_app(), make_app()
    old_code(old)
    handle = await new_code(new).options(expires_in="1h").enqueue(7)
    async with old.worker():
        await eventually(unread(sql, handle.id))
        await sql.execute("UPDATE jobs SET expires_at = now() - interval '1 s'")
        assert (await new.jobs.wait(handle.id, timeout=30)).state is State.EXPIRED


async def test_a_person_may_cancel_it(make_app: Callable[..., Rowlock], sql: Sql) -> None:
    old, new = make_app(), make_app()
    old_code(old)
    handle = await new_code(new).enqueue(7)
    async with old.worker():
        await eventually(unread(sql, handle.id))
        await new.jobs.cancel(handle.id)
    assert (await handle.job()).state is State.CANCELLED


async def test_a_unique_key_and_a_gate_while_nobody_can_read(make_app: Callable[..., Rowlock], sql: Sql) -> None:
    old, new = make_app(), make_app()
    gate = Gate("one", limit=1)
    readable = old_code(old, gate=gate)
    handle = await new_code(new, gate=gate).options(unique_key="k").enqueue(7)
    async with old.worker():
        await eventually(unread(sql, handle.id))
        # Its place is free again, its key is not.
        assert await (await readable.enqueue("8")).wait(timeout=15) == "old 8"
        with pytest.raises(UniqueConflict):
            await readable.options(unique_key="k").enqueue("9")
    assert await sql.fetchval("SELECT held FROM gates WHERE key = 'one'") == 0


async def test_an_unreadable_head_does_not_block_a_strict_lane(make_app: Callable[..., Rowlock], sql: Sql) -> None:
    old, new = make_app(), make_app()
    readable = old_code(old)
    await old.lanes.create(Lane("single", kinds=("report",), slots=1, max_total=1, order="strict"))
    head = await new_code(new).options(priority=9).enqueue(7)
    behind = await readable.enqueue("8")
    async with old.worker():
        assert await behind.wait(timeout=15) == "old 8"
    assert await unread(sql, head.id)()


async def test_the_warning_and_the_history_keep_secrets(
    make_app: Callable[..., Rowlock], sql: Sql, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = make_app(), make_app()

    @old.job("send", version=2)
    async def send(token: SecretStr) -> None: ...

    @send.upgrade(from_version=1)
    def renamed(args: dict[str, Any]) -> dict[str, Any]:
        message = f"cannot use {args['key']}"
        raise LookupError(message)

    @new.job("send")
    async def sent(key: SecretStr) -> None: ...

    handle = await sent.enqueue(SecretStr("hunter2hunter2"))
    with caplog.at_level(logging.WARNING, logger="rowlock"):
        async with old.worker():
            await eventually(unread(sql, handle.id))
    stored = await sql.fetchval("SELECT errors::text || (SELECT error::text FROM job_attempts) FROM jobs")
    assert "LookupError: cannot use •••" in caplog.text
    assert "Traceback" in stored
    assert "hunter2hunter2" not in caplog.text + stored


async def test_blocking_handlers_wait_for_fitting_code_too(make_app: Callable[..., Rowlock], sql: Sql) -> None:
    old, new = make_app(), make_app()

    @old.job("add")
    def add(first: int) -> int:
        return first

    @new.job("add")
    def added(first: int, second: int = 0) -> int:
        return first + second

    plain, extended = await added.enqueue(1), await added.enqueue(1, second=2)
    async with old.worker():
        assert await plain.wait(timeout=15) == 1
        await eventually(unread(sql, extended.id))
    await due_now(sql)
    async with new.worker():
        assert await extended.wait(timeout=15) == 3


# Renamed kinds.


async def test_a_renamed_kind_runs_the_jobs_of_its_old_name(make_app: Callable[..., Rowlock]) -> None:
    old, new = make_app(), make_app()

    @old.job("build_report")
    async def build_report(org_id: int) -> str:
        return f"old {org_id}"

    @new.job("reports.build", aliases=("build_report",))
    async def build(org_id: int) -> str:
        return f"new {org_id}"

    waiting = await build_report.enqueue(1)
    async with new.worker():
        assert await waiting.wait(timeout=15) == "new 1"
        woken = await build_report.enqueue(2)
        assert await woken.wait(timeout=15) == "new 2"
        assert await (await build.enqueue(3)).wait(timeout=15) == "new 3"
    assert [(await job.job()).kind for job in (waiting, woken)] == ["build_report", "build_report"]


async def test_the_old_name_enqueues_under_the_new_one(app: Rowlock, caplog: pytest.LogCaptureFixture) -> None:
    @app.job("reports.build", aliases=("build_report",))
    async def build(org_id: int) -> None: ...

    with caplog.at_level(logging.WARNING, logger="rowlock"):
        task = app.task("build_report")
    handle = await task.enqueue(org_id=1)
    assert (await handle.job()).kind == task.kind == "reports.build"
    assert "build_report is called reports.build now" in caplog.text
    assert app.task("reports.build") is task


async def test_keys_hold_across_a_rename(make_app: Callable[..., Rowlock]) -> None:
    first, second, third = make_app(), make_app(), make_app()

    async def build(org_id: int) -> None: ...

    one = first.job("build_report")(build)
    two = second.job("reports.build", aliases=("build_report",))(build)
    three = third.job("reports.make", aliases=("build_report", "reports.build"))(build)
    holder = await one.options(unique_key="org-7").enqueue(7)
    once = await one.options(idempotency_key="monday").enqueue(7)
    for task in (two, three):
        assert (await task.options(unique_key="org-7", on_conflict="keep").enqueue(7)).id == holder.id
        assert (await task.options(idempotency_key="monday").enqueue(7)).id == once.id
        assert (await task.options(unique_key="org-7", unique_across_kinds=True, on_conflict="keep").enqueue(7)).id


async def test_what_operators_and_code_say_of_a_kind_follows_its_name(
    make_app: Callable[..., Rowlock], sql: Sql
) -> None:
    app = make_app()
    await app.lanes.create(Lane("chosen", kinds=("build_report",)))

    @app.job("reports.build", lane="hinted", aliases=("build_report",), on_worker_lost="fail", retention="1h")
    async def build() -> None: ...

    @app.job("mail", lane="post", aliases=("send_mail",))
    async def mail() -> None: ...

    for _ in range(2):  # starting again changes nothing more
        async with app.worker():
            pass
        lanes = {row["name"]: row["kinds"] for row in await sql.fetch("SELECT name, kinds FROM lanes")}
        assert lanes == {
            "chosen": ["build_report", "reports.build"],
            "hinted": [],
            "post": ["mail", "send_mail"],
            "default": ["*"],
        }
    lost = await sql.fetch("SELECT name, on_worker_lost FROM kinds WHERE name LIKE '%build%' ORDER BY name")
    assert [tuple(row) for row in lost] == [("build_report", "fail"), ("reports.build", "fail")]
    kept = await sql.fetch("SELECT kind FROM retention WHERE keep = '1 h' ORDER BY kind")
    assert [row[0] for row in kept] == ["build_report", "reports.build"]
