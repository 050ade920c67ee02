"""A link that breaks at each statement of a job's life: before it was sent, or after its commit, its answer lost."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.waiting import eventually

from rowlock import Context, ItemContext, Job, Retry, Rowlock, chain
from rowlock.errors import DatabaseUnreachable, WrongState
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    Sql = asyncpg.Connection[asyncpg.Record]

AGAIN = Retry(attempts=3, minimum="0s", jitter="0s")
TWICE = ("before", "after")


class Failpoints:
    """Statements whose next uses lose their connection: before they are sent, or when their answer is on its way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed: dict[str, list[str]] = {}
        fetch = asyncpg.Connection.fetch

        async def failing(connection: Sql, query: str, *args: object, **options: Any) -> list[asyncpg.Record]:  # noqa: ANN401 - asyncpg's own
            points = self.armed.get(query)
            point = points.pop(0) if points else None
            rows = [] if point == "before" else await fetch(connection, query, *args, **options)
            if point is not None:
                connection.terminate()
                message = f"the connection broke {point} the statement"
                raise asyncpg.ConnectionDoesNotExistError(message)
            return rows

        self.commits = 0
        """Commits of which the answer gets lost."""
        execute = asyncpg.Connection.execute

        async def committing(connection: Sql, query: str, *args: object, **options: Any) -> str:  # noqa: ANN401 - as above
            said = await execute(connection, query, *args, **options)
            if self.commits and query.startswith("COMMIT"):
                self.commits -= 1
                connection.terminate()
                message = "the connection broke after the commit"
                raise asyncpg.ConnectionDoesNotExistError(message)
            return said

        monkeypatch.setattr(asyncpg.Connection, "fetch", failing)
        monkeypatch.setattr(asyncpg.Connection, "execute", committing)

    def arm(self, app: Rowlock, *names: str, points: tuple[str, ...] = TWICE) -> None:
        for name in names:
            self.armed[app.database().statements[name].dollar] = list(points)

    @property
    def left(self) -> int:
        return self.commits + sum(map(len, self.armed.values()))


@pytest.fixture
def failpoints(monkeypatch: pytest.MonkeyPatch) -> Iterator[Failpoints]:
    yield Failpoints(monkeypatch)
    monkeypatch.undo()


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    app = Rowlock(database_url, settings=Settings(shutdown_after=timedelta(seconds=3)))
    yield app
    await app.close()


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[Sql]:
    connection = await asyncpg.connect(database_url, server_settings={"search_path": "rowlock"})
    yield connection
    connection.terminate()


class Cast:
    """Kinds that between them need every statement of a worker; what they did, by claim."""

    def __init__(self, app: Rowlock) -> None:
        self.app = app
        self.runs: Counter[tuple[int, int]] = Counter()
        self.told: Counter[int] = Counter()
        app.lanes.define("narrow", kinds=["capped"], max_total=1)
        app.lanes.define("turns", kinds=["shared"], order="fair")
        app.lanes.define("default", kinds=["*"])
        self._declare_plain()
        self._declare_others()

    def _declare_plain(self) -> None:
        @self.app.job(retry=AGAIN)
        async def plain(ctx: Context) -> None:
            self.runs[ctx.claim.job_id, ctx.claim.fence] += 1

        @self.app.job(retry=AGAIN)
        async def capped(ctx: Context) -> None:
            self.runs[ctx.claim.job_id, ctx.claim.fence] += 1

        @self.app.job(retry=AGAIN, fair=True)
        async def shared(ctx: Context) -> None:
            self.runs[ctx.claim.job_id, ctx.claim.fence] += 1

        @self.app.job(retry=AGAIN, gate="one")
        async def gated(ctx: Context) -> int:
            self.runs[ctx.claim.job_id, ctx.claim.fence] += 1
            return 7

    def _declare_others(self) -> None:
        @self.app.job(retry=AGAIN)
        async def flaky(ctx: Context) -> None:
            self.runs[ctx.claim.job_id, ctx.claim.fence] += 1
            if ctx.job.attempt == 1:
                message = "not yet"
                raise ValueError(message)

        @self.app.job(retry=AGAIN)
        async def happy(ctx: Context) -> int:
            self.runs[ctx.claim.job_id, ctx.claim.fence] += 1
            return 8

        @happy.on_success
        async def succeeded(job: Job) -> None:
            self.told[job.id] += 1

        @self.app.job(retry=AGAIN)
        async def reports(ctx: Context) -> None:
            self.runs[ctx.claim.job_id, ctx.claim.fence] += 1
            await ctx.progress(1, 2)
            await ctx.checkpoint.save(3)
            await ctx.items(["x", "y"], look_at)

        async def look_at(item: ItemContext, thing: str) -> None:
            del item, thing

    async def enqueue(self) -> None:
        """Two of each kind, and two chains."""
        for kind in ("plain", "capped", "shared", "gated", "flaky", "happy", "reports"):
            for _ in range(2):
                await self.app.task(kind).enqueue()
        plain: Any = self.app.task("plain")
        happy: Any = self.app.task("happy")
        for _ in range(2):
            await chain(plain, happy, plain).enqueue()


WORKER = (
    ("claim",),
    ("claim", "disown"),
    ("claim_fair",),
    ("claim_released",),
    ("cap_taken",),
    ("complete_plain",),
    ("complete", "settled"),
    ("complete_hooked",),
    ("give_back",),
    ("report_progress", "write_items"),
    ("beat",),
)
"""Statements of a worker that fail together: the second is what makes up for the first."""


@pytest.mark.parametrize("names", WORKER, ids=" and ".join)
async def test_a_worker_that_loses_its_link_at_a_statement_loses_nothing_and_repeats_nothing(
    app: Rowlock, sql: Sql, failpoints: Failpoints, names: tuple[str, ...]
) -> None:
    cast = Cast(app)
    await cast.enqueue()
    failpoints.arm(app, *names)
    async with app.worker():
        await eventually(lambda: _over(sql, failpoints), within=25)
    states = await sql.fetch("SELECT id, kind, state, errors FROM jobs WHERE state <> 'completed'")
    assert not states, states
    ran = await sql.fetch("SELECT id FROM jobs WHERE kind NOT LIKE '%/%'")
    assert {row["id"] for row in ran} == {job for job, _ in cast.runs}
    assert max(cast.runs.values()) == 1, "one claim was run twice"
    happy = await sql.fetch("SELECT id FROM jobs WHERE kind = 'happy'")
    assert cast.told == {row["id"]: 1 for row in happy}, "one hook for each success"
    assert await sql.fetchval("SELECT sum(held) FROM gates") == 0
    # A lost answer is no lost worker and no failed attempt.
    outcomes = await sql.fetch("SELECT j.kind, a.outcome FROM job_attempts a JOIN jobs j ON j.id = a.job_id")
    failed = Counter(row["kind"] for row in outcomes if row["outcome"] == "failed")
    assert failed == {"flaky": 2}
    assert {row["outcome"] for row in outcomes} <= {"failed", "disowned"}
    assert await sql.fetchval("SELECT max(attempt) FROM jobs WHERE kind <> 'flaky'") == 1


async def _over(sql: Sql, failpoints: Failpoints) -> bool:
    """Everything is final, and every failpoint was reached."""
    live = await sql.fetchval("SELECT EXISTS (SELECT 1 FROM jobs WHERE finished_at IS NULL)")
    return not live and failpoints.left == 0


async def _insisting(call: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - whatever was called for
    """Call again, as the docs tell callers to who got no answer."""
    for _ in range(5):
        with contextlib.suppress(DatabaseUnreachable):
            return await call()
    pytest.fail("the database did not come back")


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("statement", ["enqueue_once", "enqueue_many_once", "enqueue_once_keep"])
async def test_an_enqueue_that_got_no_answer_is_the_same_job_when_it_is_called_again(
    app: Rowlock, sql: Sql, failpoints: Failpoints, statement: str, point: str
) -> None:
    @app.job
    async def work(n: int) -> None: ...

    keyed = work.options(idempotency_key=lambda n: f"key {n}")
    both = work.options(idempotency_key="key 1", unique_key="only")
    await work.enqueue(0)
    failpoints.arm(app, statement, points=(point, point))
    if statement == "enqueue_many_once":
        made = await _insisting(lambda: keyed.enqueue_many([{"n": 1}, {"n": 2}, {"n": 1}]))
        again = await keyed.enqueue_many([{"n": 1}, {"n": 2}])
        assert [handle.id for handle in made] == [again[0].id, again[1].id, again[0].id]
    else:
        call = both if statement == "enqueue_once_keep" else keyed
        made = await _insisting(lambda: call.enqueue(1))
        assert made.id == (await call.enqueue(1)).id
    assert failpoints.left == 0
    assert await sql.fetchval("SELECT count(*) FROM jobs") == (3 if statement == "enqueue_many_once" else 2)


@pytest.mark.parametrize("point", ["before", "after", "commit"])
@pytest.mark.parametrize("verb", ["cancel", "approve", "retry"])
async def test_an_order_that_got_no_answer_was_carried_out_once_or_not_at_all(
    app: Rowlock, sql: Sql, failpoints: Failpoints, verb: str, point: str
) -> None:
    @app.job
    async def work() -> None: ...

    handle = await work.options(approval=verb == "approve").enqueue()
    if verb == "retry":
        await app.jobs.cancel(handle.id)
    fence = await sql.fetchval("SELECT fence FROM jobs WHERE id = $1", handle.id)
    order = getattr(app.jobs, verb)
    if point == "commit":
        failpoints.commits = 1
    else:
        failpoints.arm(app, "cancel_waiting" if verb == "cancel" else verb, points=(point,))
    with pytest.raises(DatabaseUnreachable):
        await order(handle.id)
    assert failpoints.left == 0
    done = await sql.fetchval("SELECT fence FROM jobs WHERE id = $1", handle.id) - fence
    assert done == (point == "commit"), "the order and its line in the audit are one transaction"
    with contextlib.suppress(WrongState):
        await order(handle.id)
    row = await sql.fetchrow("SELECT state, fence FROM jobs WHERE id = $1", handle.id)
    assert row is not None
    assert (row["state"], row["fence"]) == ("cancelled" if verb == "cancel" else "queued", fence + 1)
    acts = await sql.fetchval("SELECT count(*) FROM job_acts WHERE job_id = $1 AND verb = $2", handle.id, verb)
    assert acts == 1, "written down once, with what it did"


@pytest.mark.parametrize("statement", ["schedule_take", "schedule_fired"])
async def test_a_scheduler_that_loses_its_link_in_the_middle_fires_the_slot_once(
    app: Rowlock, sql: Sql, failpoints: Failpoints, statement: str
) -> None:
    @app.job
    async def tick() -> None: ...

    await app.schedules.create("often", "tick", every="1h", missed="latest")
    await sql.execute("UPDATE schedules SET next_at = date_trunc('hour', clock_timestamp())")
    failpoints.arm(app, statement)
    async with app.worker():
        await eventually(lambda: sql.fetchval("SELECT count(*) > 0 FROM jobs WHERE state = 'completed'"), within=20)
    assert failpoints.left == 0
    assert await sql.fetchval("SELECT count(*) FROM jobs") == 1
    assert await sql.fetchval("SELECT next_at > clock_timestamp() FROM schedules")
