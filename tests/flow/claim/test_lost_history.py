"""A server that has forgotten commits: a lagging replica was promoted, or a backup restored, and workers lived on."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.databases import fresh
from tests.factories import Store, beating, opened, several
from tests.waiting import eventually

from rowlock import Context, Rowlock  # noqa: TC001 - the annotations of handlers are read
from rowlock.errors import DatabaseUnreachable
from rowlock.flow.finish.finisher import PLAIN, FinalWrite, Finisher, PendingWrite
from rowlock.model.job import Claim
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncpg
    import psycopg

    from rowlock.flow.finish.finisher import FlushResult

UNCLAIMED = """
UPDATE {s}.jobs SET state = 'queued', fence = fence - 1, attempt = attempt - 1, claimed_by = NULL, claimed_at = NULL,
  run_after = clock_timestamp() WHERE id = $1
"""
"""The claim was forgotten."""


async def _suspend(store: Store, claim: Claim, worker: int) -> list[int]:
    values = {"ids": [claim.job_id], "fences": [claim.fence], "signals": ["s"], "seconds": [None]}
    return list((await store.one("suspend", worker=worker, channel=store.database.channel, **values))["ids"])


async def _report(store: Store, claim: Claim, worker: int) -> list[int]:
    nothing: dict[str, Any] = {name: [None] for name in ("phases", "progress", "passed", "cursors")}
    values = {**nothing, "ids": [claim.job_id], "fences": [claim.fence], "checkpoints": ["1"]}
    return [row["job_id"] for row in await store.fetch("report_progress", worker=worker, **values)]


async def _save(store: Store, claim: Claim, worker: int) -> list[int]:
    values = {"id": claim.job_id, "fence": claim.fence, "worker": worker}
    return [row["job_id"] for row in await store.fetch("save_checkpoint", checkpoint="1", **values)]


async def _guard(store: Store, claim: Claim, worker: int) -> list[int]:
    return [row["id"] for row in await store.fetch("guard", id=claim.job_id, fence=claim.fence, worker=worker)]


WRITES: dict[str, Callable[[Store, Claim, int], Awaitable[list[int]]]] = {
    "complete": lambda store, claim, worker: store.complete(claim, worker=worker),
    "fail": lambda store, claim, worker: store.complete(claim, state="failed", worker=worker),
    "give back": lambda store, claim, worker: store.give_back(claim, worker=worker),
    "suspend": _suspend,
    "report": _report,
    "save a checkpoint": _save,
    "guard": _guard,
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_claim_of_the_lost_history_is_refused_while_another_worker_holds_its_namesake(
    database_url: str, write: str
) -> None:
    async with several(database_url, 2) as (old, new):
        first, second = await old.worker(), await new.worker()
        job = await old.enqueue()
        (lost,) = await old.claim(first, job)
        await old.execute(UNCLAIMED, job)
        (claim,) = await new.claim(second, job)
        assert claim == lost
        assert await WRITES[write](old, lost, first) == []
        row = await new.row(job)
        assert (row["state"], row["claimed_by"], row["fence"]) == ("running", second, claim.fence)
        assert await WRITES[write](new, claim, second) == [job]


async def test_a_beat_tells_of_claims_that_another_worker_holds(database_url: str) -> None:
    async with opened(database_url) as store:
        first, second = await store.worker(), await store.worker()
        job = await store.enqueue()
        (claim,) = await store.claim(first, job)
        await store.execute(UNCLAIMED, job)
        await store.claim(second, job)
        assert (await store.one("beat", **beating(first, claim)))["lost"] == [job]
        assert (await store.one("beat", **beating(second, claim)))["lost"] == []


async def test_a_worker_that_gets_its_own_claim_again_drops_the_first_run(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    begun: Counter[str] = Counter()
    told: list[str] = []

    @app.job()
    async def work(ctx: Context, name: str) -> str:
        begun[name] += 1
        run = f"{name} {begun[name]}, fence {ctx.claim.fence}"
        if run.startswith("first 1"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told.append(run)
                raise
        return run

    async def is_under_way() -> bool:
        return begun["first"] == 1

    async with app.worker():
        job = await work.enqueue("first")
        await eventually(is_under_way)
        await sql.execute(UNCLAIMED.replace("{s}", "rowlock"), job.id)
        await work.enqueue("second")  # wakes the worker
        assert await job.wait(timeout=20) == "first 2, fence 1"
    assert told == ["first 1, fence 1"]
    assert (await app.jobs.get(job.id)).attempt == 1


class Away:
    """A connection to a server that is away, then there."""

    def __init__(self) -> None:
        self.database = self
        self.channel = "c"
        self.there = False
        self.tries = 0
        self.written: list[Any] = []

    async def fetch(self, name: str, **values: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - the statement's
        self.tries += 1
        if not self.there:
            raise DatabaseUnreachable("away")
        self.written.append((name, values["ids"], values.get("results")))
        return [{"ids": values["ids"], "promoted": 0, "released": None}]


async def test_an_outcome_that_waits_is_dropped_when_its_claim_is_given_out_again() -> None:
    link, flushed = Away(), list[Any]()
    finisher = Finisher(link, 1, flushed.append)  # type: ignore[arg-type]  # all it needs of a link
    other, claim = Claim(1, 1), Claim(7, 1)
    lost, kept = PendingWrite(claim, PLAIN, "default"), PendingWrite(other, PLAIN, "default")
    finisher.start()

    async def has_tried() -> bool:
        return link.tries > 0

    for outcome in (lost, kept):
        finisher.finish(outcome)
    await eventually(has_tried)
    finisher.forget(claim)
    accepted = PendingWrite(claim, FinalWrite(State.COMPLETED, '"new"'), "default")
    finisher.finish(accepted)
    link.there = True
    await finisher.drained()
    await finisher.stop()
    assert link.written == [("complete_plain", [1], None), ("complete", [7], ['"new"'])]
    answers: list[FlushResult] = flushed
    assert [one for answer in answers for one in answer.refused] == [lost]
    assert [one for answer in answers for one in answer.accepted] == [kept, accepted]


async def test_what_a_worker_has_finished_and_the_server_forgot_is_run_again_soon(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    runs: list[int] = []

    @app.job()
    async def work(ctx: Context) -> None:
        runs.append(ctx.claim.fence)

    async with app.worker():
        job = await work.enqueue()
        await job.wait(timeout=20)
        await sql.execute(
            "UPDATE jobs SET state = 'running', fence = fence - 1, finished_at = NULL WHERE id = $1", job.id
        )
        await sql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'rowlock:beat' AND datname = current_database()"
        )
        await job.wait(timeout=12)
    assert runs == [1, 3]
    history = await app.jobs.history(job.id)
    assert [attempt.outcome for attempt in history.attempts] == ["disowned"]


async def test_after_a_restore_ids_and_keys_go_on_from_the_backup_and_old_claims_are_refused(
    administrator: psycopg.Connection[Any], server_url: str, database_url: str
) -> None:
    async with opened(database_url) as store:
        first = await store.worker()
    name = urlsplit(database_url).path[1:]
    with fresh(administrator, server_url, name) as backup:
        async with opened(database_url) as lost, opened(backup) as kept:
            asked: dict[str, Any] = {"statement": "enqueue_once", "idempotency_key": "i", "keep_key": timedelta(1)}
            job = await lost.enqueue(**asked)
            (claim,) = await lost.claim(first, job)
            again = await kept.enqueue(**asked)
            second = await kept.worker()
            (namesake,) = await kept.claim(second, again)
            assert (namesake, again) == (claim, job)
            assert await kept.complete(claim, worker=first) == []
            assert await kept.complete(namesake, worker=second) == [again]
