from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock import ClaimLost, Context, Job, State, Stopped, SyncContext
from rowlock.testing import stub_context, stub_sync_context

if TYPE_CHECKING:
    from tests.testing.shop import Shop


async def work(ctx: Context, pages: int) -> str:
    start = await ctx.checkpoint.load() or 0
    assert isinstance(start, int)
    async with ctx.phase("pages", total=pages) as phase:
        for page in range(start, pages):
            await phase.advance(message=f"page {page}")
            await ctx.checkpoint.save(page + 1)
    async with ctx.phase("print"):
        ctx.log.info("printing %d", pages)
    await ctx.progress(1, 1)
    return f"attempt {ctx.job.attempt} for {ctx.job.tenant}"


def blocking(ctx: SyncContext, pages: int) -> int:
    done = ctx.checkpoint.load() or 0
    assert isinstance(done, int)
    with ctx.phase("pages", total=pages) as phase:
        while done < pages:
            phase.advance()
            done += 1
            ctx.checkpoint.save(done)
    return done


async def test_a_handler_is_called_alone(shop: Shop) -> None:
    assert await shop.report(stub_context(), 7, full=True) == "report of 7 in full"
    shop.mail(stub_sync_context(), "ada")
    assert shop.said == ["report 7 1", "mail ada"]


async def test_what_it_says_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    ctx = stub_context(attempt=2, tenant="acme")
    with caplog.at_level("INFO"):
        assert await work(ctx, 2) == "attempt 2 for acme"
    record = ctx.record
    assert record.phases == ["pages", "print"]
    assert [(report.phase, report.done, report.total, report.message) for report in record.reports] == [
        ("pages", 0, 2, None),
        ("pages", 1, 2, "page 0"),
        ("pages", 2, 2, "page 1"),
        ("print", 0, None, None),
        ("print", 1, 1, None),
    ]
    assert record.progress is record.reports[-1]
    assert record.checkpoints == [1, 2]
    assert ctx.record.checkpoint == 2
    assert record.logs == caplog.messages == ["printing 2"]


async def test_it_resumes_from_a_checkpoint() -> None:
    ctx = stub_context(checkpoint=3)
    await work(ctx, 4)
    assert ctx.record.checkpoints == [4]


async def test_it_is_cancelled_when_told() -> None:
    ctx = stub_context(cancel_after=2)
    with pytest.raises(asyncio.CancelledError):
        await work(ctx, 9)
    assert ctx.cancelled
    assert len(ctx.record.reports) == 2
    ctx = stub_context()
    ctx.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ctx.progress(1)


async def test_its_claim_can_be_taken_away() -> None:
    ctx = stub_context()
    async with ctx.guarded("session"):
        pass
    assert ctx.record.guarded == ["session"]
    ctx.lose()
    with pytest.raises(ClaimLost):
        await ctx.checkpoint.save(1)
    with pytest.raises(ClaimLost):
        async with ctx.guarded("session"):
            pass


def test_a_blocking_handler_is_called_alone() -> None:
    ctx = stub_sync_context(checkpoint={"pages": 1}["pages"])
    assert blocking(ctx, 3) == 3
    assert ctx.record.phases == ["pages"]
    assert ctx.record.checkpoints == [2, 3]
    assert ctx.record.checkpoint == 3
    with ctx.guarded("session"):
        assert ctx.record.guarded == ["session"]


def test_a_blocking_handler_is_stopped() -> None:
    with pytest.raises(Stopped):
        blocking(stub_sync_context(cancel_after=2), 9)
    ctx = stub_sync_context()
    ctx.cancel()
    with pytest.raises(Stopped):
        ctx.check()
    ctx = stub_sync_context()
    ctx.lose()
    with pytest.raises(ClaimLost):
        ctx.progress(1)


def test_the_job_is_the_tests_to_choose() -> None:
    job = stub_context(kind="report", args={"org_id": 7}).job
    assert isinstance(job, Job)
    assert (job.kind, job.args, job.state) == ("report", {"org_id": 7}, State.RUNNING)
    assert stub_context(job=job, attempt=4).job.attempt == 4
    with pytest.raises(TypeError):
        stub_context(atempt=4)
