from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.store.callers.neighbours import dialect
from tests.waiting import let_others_run

from rowlock.api import RowlockAPI
from rowlock.api.auth.trusted import TrustedAuth
from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from tests.testing.shop import Shop

    from rowlock.testing import Kit


async def test_a_job_has_run_when_enqueue_returns(kit: Kit, shop: Shop) -> None:
    with kit.inline():
        job = await shop.report.enqueue(org_id=1)
        assert shop.said == ["report 1 1"]
        assert (await job.job()).result == "report of 1"
        kit.assert_enqueued(shop.report, org_id=1)
    await shop.report.enqueue(org_id=2)
    assert shop.said == ["report 1 1"]


def test_in_blocking_code_too(kit: Kit, shop: Shop) -> None:
    with kit.inline():
        shop.mail.enqueue_sync("ada")
        shop.report.enqueue_many_sync([{"org_id": 1}, {"org_id": 2}])
    assert shop.said == ["mail ada", "report 1 1", "report 2 1"]


async def test_blocking_code_inside_an_event_loop(kit: Kit, shop: Shop) -> None:
    with kit.inline():
        shop.report.enqueue_sync(org_id=1)
    assert shop.said == ["report 1 1"]


async def test_jobs_enqueued_by_jobs_run_inside_of_them(kit: Kit, shop: Shop) -> None:
    @shop.app.job
    async def outer() -> None:
        shop.said.append("outer begins")
        await shop.report.enqueue(org_id=1)
        shop.said.append("outer ends")

    with kit.inline():
        await outer.enqueue()
    assert shop.said == ["outer begins", "report 1 1", "outer ends"]


def test_blocking_jobs_enqueued_by_blocking_jobs(kit: Kit, shop: Shop) -> None:
    @shop.app.job
    def outermost() -> None:
        middle.enqueue_sync()
        shop.said.append("outermost")

    @shop.app.job
    async def middle() -> None:
        inner.enqueue_sync()  # blocks the loop it runs on, as careless code does
        shop.said.append("middle")

    @shop.app.job
    def inner() -> None:
        shop.mail.enqueue_sync("ada")
        shop.said.append("inner")

    with kit.inline():
        outermost.enqueue_sync()
    assert shop.said == ["mail ada", "inner", "middle", "outermost"]


async def test_what_is_not_due_waits(kit: Kit, shop: Shop) -> None:
    with kit.inline():
        await shop.report.options(run_in="1h").enqueue(org_id=1)
        await shop.report.options(approval=True).enqueue(org_id=2)
    assert shop.said == []


@pytest.fixture
def clerk() -> Principal:
    """May submit jobs and read its own."""
    return Principal("clerk", "acme", frozenset({Permission.SUBMIT, Permission.READ}))


async def test_a_job_that_a_principal_submits_has_run_when_submit_returns(
    kit: Kit, shop: Shop, clerk: Principal
) -> None:
    with kit.inline():
        made = await shop.app.desk(clerk).jobs.submit("report", {"org_id": 1})
        assert shop.said == ["report 1 1"]
        assert (made.what, made.job.state, made.job.submitted_by) == ("created", "completed", "clerk")
        kept = await shop.app.desk(clerk).jobs.submit("report", {"org_id": 2}, unique_key="k", run_in="1h")
        again = await shop.app.desk(clerk).jobs.submit("report", {"org_id": 2}, unique_key="k", on_conflict="keep")
        assert (again.what, again.job.id, again.job.state) == ("kept", kept.job.id, "queued")
    assert shop.said == ["report 1 1"]


async def test_a_failure_of_such_a_job_is_an_outcome_or_raised(kit: Kit, shop: Shop, clerk: Principal) -> None:
    with kit.inline():
        made = await shop.app.desk(clerk).jobs.submit("broken", {"n": 1})
        assert made.job.state == "failed"
    with kit.inline(raise_errors=True), pytest.raises(LookupError, match="no 2"):
        await shop.app.desk(clerk).jobs.submit("broken", {"n": 2})


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["plain", "with a key"])
async def test_a_job_that_comes_over_rest_has_run_when_the_answer_comes(
    kit: Kit, shop: Shop, clerk: Principal, headers: dict[str, str]
) -> None:
    api = RowlockAPI(shop.app, auth=TrustedAuth(lambda _connection: clerk))
    transport = httpx.ASGITransport(api.asgi)
    with kit.inline():
        async with httpx.AsyncClient(transport=transport, base_url="http://door/api/v1") as client:
            for _ in range(2 if headers else 1):
                body = {"kind": "report", "args": {"org_id": 1}}
                answer = await client.post("/jobs", json=body, headers=headers)
                assert (answer.status_code, answer.json()["state"]) == (202, "completed"), answer.text
    assert shop.said == ["report 1 1"]


async def test_a_failure_is_an_outcome_or_raised(kit: Kit, shop: Shop) -> None:
    with kit.inline():
        job = await shop.broken.enqueue(n=1)
    assert (await job.job()).state == "failed"
    with kit.inline(raise_errors=True), pytest.raises(LookupError, match="no 2"):
        await shop.broken.enqueue(n=2)


def test_a_blocking_session_runs_it_in_its_commit(kit: Kit, shop: Shop) -> None:
    engine = create_engine(dialect(kit.database_url, "psycopg"))
    with kit.inline(), Session(engine) as session:
        shop.report.options(session=session).enqueue_sync(org_id=1)
        assert shop.said == []
        session.commit()
        assert shop.said == ["report 1 1"]
        shop.report.options(session=session).enqueue_sync(org_id=2)
        session.rollback()
    assert shop.said == ["report 1 1"]
    engine.dispose()


async def test_an_async_session_runs_it_right_after_its_commit(kit: Kit, shop: Shop) -> None:
    engine = create_async_engine(dialect(kit.database_url, "asyncpg"))
    with kit.inline():
        async with AsyncSession(engine) as session:
            await shop.report.options(session=session).enqueue(org_id=1)
            await session.commit()
        assert not await kit.drain()  # waits for what the commit set off
    assert shop.said == ["report 1 1"]
    await engine.dispose()


async def test_a_commit_nobody_sees_leaves_it_to_drain(kit: Kit, shop: Shop) -> None:
    raw = await asyncpg.connect(kit.database_url)
    with kit.inline():
        async with raw.transaction():
            await shop.report.options(connection=raw).enqueue(org_id=1)
        await let_others_run()
        assert shop.said == []
        assert (await kit.drain()).states == {"completed": 1}
    await raw.close()
