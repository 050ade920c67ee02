"""One row that the database does not let go, or refuses, keeps no other row: at every step of a job's life."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened
from tests.races.bad_rows import FAULTS, JOBS, VICTIM, Step, held, refused
from tests.races.upkeep_steps import UPKEEP_STEPS
from tests.upkeep.duty_running import Desk, duty_runner
from tests.waiting import eventually, until
from tests.workflow_factory import Flow, S

from rowlock import Rowlock
from rowlock.flow.claim.claimer import Claimer
from rowlock.flow.claim.cursors import Cursors
from rowlock.flow.finish.finisher import PLAIN, FinalWrite, Finisher, FlushResult, PendingWrite, RequeueWrite
from rowlock.model.lane import Lane
from rowlock.model.state import State
from rowlock.store.connections.worker_connection import WorkerConnection

if TYPE_CHECKING:
    from collections.abc import Callable


async def _young_lane(store: Store) -> None:
    """A lane whose workers count as lost after a second; the server must have been up for longer."""
    await store.lane("default", kinds=["*"], stale="1 s")
    await eventually(lambda: store.value("SELECT pg_postmaster_start_time() < clock_timestamp() - interval '2 s'"))


@dataclass
class _Duty:
    """A duty of upkeep."""

    name: str
    after: str
    """The state, or '' when the rows are deleted."""

    async def prepare(self, desk: Desk) -> list[int]:
        store = desk.store
        if self.name == "rescue":
            await _young_lane(store)
        worker = await store.worker()
        self.jobs = [await store.enqueue() for _ in range(JOBS)]
        if self.name == "rescue":
            await store.claim(worker, *self.jobs)
            await store.silence(worker)
        elif self.name == "expire":
            await store.execute("UPDATE {s}.jobs SET expires_at = now() - interval '1 hour'")
        elif self.name == "too_old":
            await store.execute("UPDATE {s}.jobs SET too_old_at = now() - interval '1 hour'")
        else:
            await store.complete(*await store.claim(worker, *self.jobs))
            await store.execute("UPDATE {s}.jobs SET finished_at = now() - interval '1 year'")
        return self.jobs

    async def start(self, desk: Desk) -> None:
        await self.again(desk)

    async def again(self, desk: Desk) -> None:
        desk.hurry()
        await desk.run("expire" if self.name == "too_old" else self.name)

    async def done(self, desk: Desk) -> set[int]:
        left = "SELECT array_agg(id) FROM {s}.jobs WHERE state <> $1"
        return set(self.jobs) - set(await desk.store.value(left, self.after or "gone") or ())

    async def end(self) -> None:
        pass


@dataclass
class _Finish:
    """A worker that writes outcomes."""

    write: FinalWrite | RequeueWrite
    after: str

    async def prepare(self, desk: Desk) -> list[int]:
        self.worker = await desk.store.worker()
        jobs = [await desk.store.enqueue() for _ in range(JOBS)]
        self.claims = await desk.store.claim(self.worker, *jobs)
        return jobs

    async def start(self, desk: Desk) -> None:
        self.link = WorkerConnection(desk.store.database, "finish", lock_wait=0.5)
        self.told: list[FlushResult] = []
        self.finisher = Finisher(self.link, self.worker, self.told.append)
        for claim in self.claims:
            self.finisher.finish(PendingWrite(claim, self.write, "default"))
        self.finisher.start()

    async def again(self, desk: Desk) -> None:
        pass

    async def done(self, desk: Desk) -> set[int]:
        told = {one.claim.job_id for flushed in self.told for one in flushed.accepted}
        found = await desk.store.value("SELECT array_agg(id) FROM {s}.jobs WHERE state = $1", self.after)
        assert not any(flushed.refused for flushed in self.told)
        return told & set(found or ())

    async def end(self) -> None:
        await self.finisher.stop()
        await self.link.close()


class _Claim:
    """A worker that claims from two lanes."""

    async def prepare(self, desk: Desk) -> list[int]:
        self.worker = await desk.store.worker()
        self.jobs = [await desk.store.enqueue("k" if n < VICTIM + 2 else "other") for n in range(JOBS)]
        return self.jobs

    async def start(self, desk: Desk) -> None:
        self.link, cursors = WorkerConnection(desk.store.database, "claim"), Cursors(time.monotonic)
        self.now = 0.0
        self.claimer = Claimer(self.link, self.worker, cursors, ["k", "other"], monotonic=lambda: self.now)
        lanes = {name: Lane(name, kinds=(name,), slots=20) for name in ("k", "other")}
        self.claimer.serve(lanes, lanes.values())
        cursors.publish(((name, 0, 0), None) for name in lanes)
        self.cursors, self.taken = cursors, set[int]()
        await self.again(desk)

    async def again(self, desk: Desk) -> None:  # noqa: ARG002 - a Step's
        self.now += 100
        self.cursors.everywhere()
        rows = await self.claimer.claim({"k": 20, "other": 20})
        self.taken |= {row["id"] for row in rows}

    async def done(self, desk: Desk) -> set[int]:  # noqa: ARG002 - a Step's
        return self.taken

    async def end(self) -> None:
        await self.link.close()


RETRIED = RequeueWrite("failed", timedelta(hours=1), 0, '{"type": "ValueError", "message": "no ink"}')
STEPS: dict[str, Callable[[], Step]] = {
    "claim": _Claim,
    "completed": lambda: _Finish(PLAIN, State.COMPLETED),
    "completed with a result": lambda: _Finish(FinalWrite(State.COMPLETED, "1"), State.COMPLETED),
    "failed": lambda: _Finish(FinalWrite(State.FAILED, error='{"type": "ValueError"}'), State.FAILED),
    "retried": lambda: _Finish(RETRIED, State.QUEUED),
    "rescue": lambda: _Duty("rescue", State.QUEUED),
    "expire": lambda: _Duty("expire", State.EXPIRED),
    "too old": lambda: _Duty("too_old", State.FAILED),
    "prune": lambda: _Duty("prune", ""),
    **UPKEEP_STEPS,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_row_that_cannot_be_written_keeps_no_other_and_is_written_when_it_can_be(
    database_url: str, step: str, fault: str
) -> None:
    tried = STEPS[step]()
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        jobs = await tried.prepare(desk)
        neighbours = set(jobs) - {jobs[VICTIM]}

        async def neighbours_done() -> bool:
            await tried.again(desk)
            return await tried.done(desk) >= neighbours

        async def all_done() -> bool:
            await tried.again(desk)
            return await tried.done(desk) == set(jobs)

        async with FAULTS[fault](other, jobs[VICTIM]):
            await tried.start(desk)
            await eventually(neighbours_done, within=15)
            assert await tried.done(desk) == neighbours
        await eventually(all_done, within=30)
        await tried.end()


async def test_an_uncommitted_twin_keeps_neither_the_retry_nor_the_rescue_of_other_jobs(database_url: str) -> None:
    keyed = {"unique_key": "nightly", "unique_scope": "waiting"}
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        await _young_lane(desk.store)
        worker = await desk.store.worker()
        jobs = [await desk.store.enqueue() for _ in range(JOBS - 1)]
        jobs.append(await desk.store.enqueue(statement="enqueue_keep", **keyed))
        await desk.store.claim(worker, *jobs)
        await desk.store.silence(worker)
        async with other.connection.transaction():
            await other.enqueue(statement="enqueue_keep", **keyed)
            await desk.run("rescue")
            assert await desk.store.states(*jobs) == [State.QUEUED] * (JOBS - 1) + [State.RUNNING]
        desk.hurry()
        await desk.run("rescue")
        assert (await desk.store.row(jobs[-1]))["state"] == State.CANCELLED  # its twin waits by now


async def test_a_held_row_keeps_no_claim_without_an_answer_from_being_given_back(database_url: str) -> None:
    async with opened(database_url) as store, opened(database_url) as other:
        worker = await store.worker()
        jobs = [await store.enqueue() for _ in range(JOBS)]
        await store.claim(worker, *jobs)
        values = {"worker": worker, "held": [], "before": await store.clock(), "channel": store.database.channel}
        async with held(other, jobs[VICTIM]):
            assert sorted((await store.one("disown", **values))["ids"]) == jobs[:VICTIM] + jobs[VICTIM + 1 :]
        assert (await store.one("disown", **values))["ids"] == [jobs[VICTIM]]


@pytest.mark.parametrize("says", ["RAISE EXCEPTION 'not this one';", "PERFORM 1 FROM public.no_such_table;"])
async def test_a_job_ends_though_the_next_one_at_its_gate_is_refused(database_url: str, says: str) -> None:
    async with opened(database_url) as store, opened(database_url) as other:
        await store.gate("printer")
        worker = await store.worker()
        first, refused_one, last = [await store.enqueue(gate_key="printer") for _ in range(3)]
        claims = await store.claim(worker, first, refused_one, last)
        assert await store.states(first, refused_one, last) == ["running", "blocked", "blocked"]
        async with refused(says)(other, refused_one):
            assert await store.complete(*claims) == [first]
            assert await store.states(first, refused_one, last) == ["completed", "blocked", "queued"]
        assert await store.complete(*await store.claim(worker, last)) == [last]
        assert (await store.row(refused_one))["state"] == State.QUEUED


async def test_a_full_gate_turns_a_job_away_though_another_of_its_key_is_refused(database_url: str) -> None:
    async with opened(database_url) as store, opened(database_url) as other:
        await store.gate("printer")
        worker = await store.worker()
        first, second, refused_one = [await store.enqueue(gate_key="printer") for _ in range(3)]
        await store.claim(worker, first)
        async with refused("RAISE EXCEPTION 'not this one';")(other, refused_one):
            assert await store.claim(worker, second) == []
            assert await store.states(first, second, refused_one) == ["running", "blocked", "queued"]


async def test_a_step_ends_though_the_one_behind_it_is_refused(database_url: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        flow = await Flow.of(desk.store, [("a", "b", S), ("a", "c", S)])
        async with refused("RAISE EXCEPTION 'not this one';")(other, flow.jobs["b"]):
            await flow.end("a")
            assert await flow.states() == {"a": "completed", "b": "blocked", "c": "queued"}
        await desk.run("workflows")
        assert (await flow.states())["b"] == "queued"


async def test_a_cancel_of_a_workflow_ends_every_step_but_the_refused_one(database_url: str) -> None:
    async with opened(database_url) as store, opened(database_url) as other, Rowlock(database_url) as app:
        flow = await Flow.of(store, [], a={}, b={}, c={})
        async with refused("RAISE EXCEPTION 'not this one';")(other, flow.jobs["b"]):
            await app.workflows.cancel(flow.number)
            assert await flow.states() == {"a": "cancelled", "b": "queued", "c": "cancelled"}


async def test_a_worker_says_which_session_blocks_a_job_and_when_that_is_over(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    step = _Finish(PLAIN, State.COMPLETED)
    caplog.set_level("INFO", "rowlock.finish")
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        jobs = await step.prepare(desk)
        async with held(other, jobs[VICTIM]):
            await step.start(desk)
            await until(lambda: "is set aside" in caplog.text)
        await until(lambda: "goes on after" in caplog.text)
        await step.end()
    (line,) = [line for line in caplog.messages if "is set aside" in line]
    assert f"process {other.pid} (rowlock:test, idle in transaction" in line
