"""A job that was rescued and claimed anew by the same process, while the outcome of its first run still waits."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened

from rowlock.flow.finish.finisher import (
    PLAIN,
    FinalWrite,
    Finisher,
    FlushResult,
    OutcomeWriter,
    PendingWrite,
    RequeueWrite,
)
from rowlock.model.hook import Hook
from rowlock.model.state import State
from rowlock.store.connections.worker_connection import WorkerConnection

if TYPE_CHECKING:
    from rowlock.model.job import Claim

RETRIED = RequeueWrite("failed", timedelta(0), 0, '{"type": "ValueError", "message": "no ink"}')
SUSPENDED = {
    name: RequeueWrite("waiting", timedelta(0), 1, state=State.BLOCKED, signal=name) for name in ("old", "new")
}
HOOKS = {"on_failure": Hook("k/on_failure", 1)}


async def claimed_twice(store: Store, worker: int) -> tuple[Claim, Claim]:
    """Claims of one job by one worker; only the second one stands."""
    job = await store.enqueue()
    (stale,) = await store.claim(worker, job)
    await store.silence(worker)
    assert await store.rescue() == [job]
    await store.execute("UPDATE {s}.jobs SET run_after = now()")
    (current,) = await store.claim(worker, job)
    return stale, current


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        (PLAIN, PLAIN, State.COMPLETED),
        (FinalWrite(State.FAILED, error="{}"), PLAIN, State.COMPLETED),
        (PLAIN, RETRIED, State.QUEUED),
        (RETRIED, PLAIN, State.COMPLETED),
        (RETRIED, RETRIED, State.QUEUED),
        (SUSPENDED["old"], SUSPENDED["new"], State.BLOCKED),
    ],
)
async def test_of_two_claims_of_a_job_in_one_flush_only_the_current_one_is_told_accepted(
    database_url: str, old: FinalWrite | RequeueWrite, new: FinalWrite | RequeueWrite, state: State
) -> None:
    told: list[FlushResult] = []
    async with opened(database_url) as store:
        worker = await store.worker()
        stale, current = await claimed_twice(store, worker)
        (other,) = await store.claim(worker, await store.enqueue())
        link = WorkerConnection(store.database, "finish")
        finisher = Finisher(link, worker, told.append)
        for claim, write in ((current, new), (other, PLAIN), (stale, old)):
            finisher.finish(PendingWrite(claim, write, "default", HOOKS))
        finisher.start()
        await finisher.drained()
        await finisher.stop()
        await link.close()
        assert await store.states(current.job_id) == [state]
        hooks = await store.value("SELECT count(*) FROM {s}.jobs WHERE kind = 'k/on_failure'")
        awaited = await store.value("SELECT array_agg(signal) FROM {s}.waits")
    (flushed,) = told
    assert [finished.claim for finished in flushed.accepted] == [current, other]
    assert [finished.claim for finished in flushed.refused] == [stale]
    assert hooks == (1 if new is RETRIED else 0)
    assert awaited == (["new"] if new is SUSPENDED["new"] else None)


async def test_an_outcome_whose_acknowledgement_was_lost_is_told_apart_from_a_lost_claim_of_the_same_job(
    database_url: str,
) -> None:
    async with opened(database_url) as store:
        worker = await store.worker()
        stale, current = await claimed_twice(store, worker)
        link = WorkerConnection(store.database, "finish")
        writer = OutcomeWriter(link, worker)
        assert await store.complete(current) == [current.job_id]
        batch = [PendingWrite(claim, PLAIN, "default") for claim in (stale, current)]
        flushed = await writer.write(batch, again=True)
        await link.close()
    assert [finished.claim for finished in flushed.accepted] == [current]
    assert [finished.claim for finished in flushed.refused] == [stale]
