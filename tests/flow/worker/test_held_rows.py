"""A whole worker beside a session that holds the row of one of its jobs, and beside a part of itself that fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, in_time, until

from rowlock import Context, Rowlock, Workflow
from rowlock.contrib.prometheus import RowlockCollector
from rowlock.desk.doctor import Doctor
from rowlock.errors import WorkerFailed
from rowlock.flow.worker import heartbeat
from rowlock.flow.worker.claim_loop import ClaimLoop
from rowlock.flow.worker.heartbeat import Heartbeat
from rowlock.model import ids
from rowlock.model.state import State
from rowlock.store.notify import NotificationListener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg

    Sql = asyncpg.Connection[asyncpg.Record]


@contextlib.asynccontextmanager
async def held(sql: Sql, job_id: int) -> AsyncIterator[None]:
    async with sql.transaction():
        await sql.fetchval("SELECT id FROM jobs WHERE id = $1 FOR UPDATE", job_id)
        yield


async def scraped(app: Rowlock) -> float:
    """rowlock_jobs_set_aside, as a fresh scrape tells it."""
    families = await asyncio.to_thread(lambda: list(RowlockCollector(app).collect()))
    (family,) = [each for each in families if each.name == "rowlock_jobs_set_aside"]
    (sample,) = family.samples
    return float(sample.value)


async def test_a_worker_goes_on_beside_a_row_that_is_held_and_says_so(app: Rowlock, sql: Sql) -> None:
    finish, runs = asyncio.Event(), Counter[str]()

    @app.job
    async def victim() -> None:
        runs["victim"] += 1
        await finish.wait()

    @app.job
    async def quick() -> None:
        runs["quick"] += 1

    async with app.worker():
        job = await victim.enqueue()
        await until(lambda: runs["victim"])
        async with held(sql, job.id):
            finish.set()
            others = [await quick.enqueue() for _ in range(30)]
            await in_time(asyncio.gather(*(other.wait() for other in others)))

            async def explained() -> bool:
                return "set_aside" in [reason.code for reason in (await app.jobs.explain(job.id)).reasons]

            await eventually(explained)
            reason = next(iter((await app.jobs.explain(job.id)).reasons))
            assert "does not take its finish" in reason.text
            assert f"process {sql.get_server_pid()}" in reason.text
            found = {finding.check: finding for finding in await Doctor(app.database(), app.settings).examine()}
            assert found["set aside"].verdict == "warn"
            assert job.public_id in found["set aside"].says
            assert await scraped(app) == 1
        await in_time(job.wait())

        async def over() -> bool:
            return not any(view.set_aside_count for view in await app.workers.list())

        await eventually(over)
        assert await scraped(app) == 0
    assert runs == {"victim": 1, "quick": 30}


_REFUSES = """
CREATE FUNCTION public.picky() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.id = {id} THEN RAISE EXCEPTION 'not this one'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER picky BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION public.picky()
"""


async def test_a_step_that_a_function_of_the_schema_passes_over_is_logged_explained_and_found_by_the_doctor(
    app: Rowlock, sql: Sql, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()

    @app.job
    async def first() -> None:
        await go.wait()

    @app.job
    async def second(n: int) -> int:
        return n

    flow = Workflow("two behind one")
    begun = flow.add(first.step())
    for n in (1, 2):
        flow.add(f"second {n}", second.step(n), after=[begun])
    async with app.worker():
        view = await app.workflows.get((await flow.enqueue()).id)
        steps = {step.name: step.job_id for step in view.steps}
        refused, other = steps["second 1"], steps["second 2"]
        await sql.execute(_REFUSES.replace("{id}", str(refused)))
        go.set()

        async def explained() -> bool:
            return "set_aside" in [reason.code for reason in (await app.jobs.explain(refused)).reasons]

        await in_time(app.jobs.wait(other))
        await eventually(explained)
        (reason,) = [one for one in (await app.jobs.explain(refused)).reasons if one.code == "set_aside"]
        assert "does not take its release: not this one" in reason.text
        found = {finding.check: finding for finding in await Doctor(app.database(), app.settings).examine()}
        assert ids.encode(refused) in found["set aside"].says
        assert "not this one" in found["set aside"].says
        assert f"job {ids.encode(refused)} is set aside, its release fails: not this one" in caplog.text
        await sql.execute("DROP TRIGGER picky ON jobs")
        await in_time(app.jobs.wait(refused))


async def test_a_lane_whose_rate_cannot_be_read_claims_nothing_and_the_others_go_on(
    app: Rowlock, sql: Sql, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(lane="limited")
    async def limited() -> None:
        pass

    @app.job
    async def quick() -> int:
        return 1

    async with app.worker():
        pass  # creates the lanes
    await sql.execute("""UPDATE lanes SET rate = '{"amount": "many"}' WHERE name = 'limited'""")
    async with app.worker():
        waits, runs = await limited.enqueue(), await quick.enqueue()
        assert await in_time(runs.wait()) == 1
        assert (await app.jobs.get(waits.id)).state is State.QUEUED
        assert "lane limited claims no jobs, its rate" in caplog.text
        await app.lanes.set("limited", rate="5/s")
        await in_time(waits.wait())


async def test_a_worker_that_stops_beside_a_held_row_has_written_all_other_outcomes(app: Rowlock, sql: Sql) -> None:
    finish, runs = asyncio.Event(), Counter[int]()

    @app.job
    async def work(ctx: Context) -> None:
        runs[ctx.job.id] += 1
        await finish.wait()

    jobs = await work.enqueue_many([{}] * 9)
    worker = app.make_worker()
    await worker.start()
    await until(lambda: len(runs) == len(jobs))
    async with held(sql, jobs[4].id):
        finish.set()
        await in_time(worker.stop(after=0))
        states = [(await app.jobs.get(job.id)).state for job in jobs]
    assert states == [State.COMPLETED] * 4 + [State.RUNNING] + [State.COMPLETED] * 4
    assert max(runs.values()) == 1


def breaks_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[str]:
    """Let the method fail the first time it is called; returns the calls."""
    original, calls = getattr(owner, name), list[str]()

    async def method(self: object, *args: object, **values: object) -> object:
        calls.append(name)
        if len(calls) == 1:
            message = "a bug"
            raise RuntimeError(message)
        return await original(self, *args, **values)

    monkeypatch.setattr(owner, name, method)
    return calls


@pytest.mark.parametrize(
    ("owner", "method"), [(ClaimLoop, "run"), (NotificationListener, "_listen"), (Heartbeat, "_run")]
)
async def test_a_background_part_that_fails_is_logged_and_started_again(
    app: Rowlock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, owner: type, method: str
) -> None:
    calls = breaks_once(monkeypatch, owner, method)

    @app.job
    async def quick() -> int:
        return 1

    async with app.worker() as worker:
        assert await in_time((await quick.enqueue()).wait()) == 1
        await until(lambda: len(calls) > 1)
        assert "starts again in 0.1 s" in caplog.text
        assert "a bug" in caplog.text
        assert worker is not None


async def test_a_worker_whose_heartbeat_does_not_start_any_more_leaves_and_says_why(
    app: Rowlock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(heartbeat, "_RESTARTS", (0.01, 0.01))

    async def run(_: Heartbeat) -> None:
        message = "too many open files"
        raise OSError(message)

    monkeypatch.setattr(Heartbeat, "_run", run)
    worker = app.make_worker(name="mute")
    await worker.start()
    await in_time(worker.stopped.wait())
    assert isinstance(worker.failure, WorkerFailed)
    assert "too many open files" in str(worker.failure)
    assert "worker mute leaves" in caplog.text
