from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from tests.factories import opened
from tests.waiting import eventually

from rowlock import (
    Cancel,
    ConfigurationError,
    Context,
    Depends,
    Failure,
    Job,
    Partial,
    Retry,
    Rowlock,
    Snooze,
    State,
    SyncContext,
    Task,
)
from rowlock.model.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    import asyncpg

QUICK = Retry(attempts=2, minimum="0s", jitter="0s")
Connection = "asyncpg.Connection[asyncpg.Record]"


def service() -> str:
    return "service"


async def work(how: str) -> object:
    if how == "fail":
        raise ValueError("no ink")
    return {"partly": Partial(3, ["page 2"]), "cancel": Cancel("not needed")}.get(how, how)


def hooked(app: Rowlock, *, blocking: bool) -> tuple[Task[[str], object], list[Any]]:
    """A kind with every hook; the list is what they were told."""
    told: list[Any] = []
    task = app.job("work", retry=QUICK)(work)
    if blocking:

        @task.on_success
        def succeeded(job: Job, ctx: SyncContext, name: Annotated[str, Depends(service)]) -> None:
            assert threading.current_thread() is not threading.main_thread()
            told.append(("success", job.id, job.state, job.result, ctx.job.kind, name))

        @task.on_failure
        def failed(job: Job, error: Failure) -> None:
            told.append(("failure", job.id, error.attempt, error.type, error.message, error.reason))

        @task.on_exhausted
        def exhausted(error: Failure, job: Job, name: str = Depends(service)) -> None:
            told.append(("exhausted", job.id, error.attempt, error.type, error.message, error.reason, name))
    else:

        @task.on_success
        async def asucceeded(job: Job, ctx: Context, name: Annotated[str, Depends(service)]) -> None:
            told.append(("success", job.id, job.state, job.result, ctx.job.kind, name))

        @task.on_failure
        async def afailed(job: Job, error: Failure) -> None:
            told.append(("failure", job.id, error.attempt, error.type, error.message, error.reason))

        @task.on_exhausted
        async def aexhausted(error: Failure, job: Job, name: str = Depends(service)) -> None:
            told.append(("exhausted", job.id, error.attempt, error.type, error.message, error.reason, name))

    return task, told


async def hooks_done(sql: Any, n: int) -> bool:  # noqa: ANN401 - a connection
    done = await sql.fetchval("SELECT count(*) FROM jobs WHERE kind LIKE '%/on\\_%' AND state = 'completed'")
    assert done <= n
    return bool(done == n)


@pytest.mark.parametrize("blocking", [False, True])
async def test_hooks_follow_success_every_failed_attempt_and_the_end(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], blocking: bool
) -> None:
    task, told = hooked(app, blocking=blocking)
    async with app.worker():
        fine, partly, bad = [await task.enqueue(how) for how in ("fine", "partly", "fail")]
        await eventually(lambda: hooks_done(sql, 4))
    assert sorted(told, key=str) == sorted(
        [
            ("success", fine.id, State.COMPLETED, "fine", "work/on_success", "service"),
            ("success", partly.id, State.COMPLETED_WITH_ERRORS, 3, "work/on_success", "service"),
            ("failure", bad.id, 1, "ValueError", "no ink", "failed"),
            ("exhausted", bad.id, 2, "ValueError", "no ink", "attempts exhausted", "service"),
        ],
        key=str,
    )


async def test_a_job_that_is_cancelled_or_snoozed_has_no_hook(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    task, told = hooked(app, blocking=False)
    again: list[int] = []

    @app.job
    async def later() -> Snooze | None:
        again.append(1)
        return Snooze("10ms") if len(again) == 1 else None

    @later.on_failure
    async def failed(job: Job) -> None:
        told.append(job.id)

    async with app.worker():
        job = await task.enqueue("cancel")
        assert (await app.jobs.wait(job.id, timeout=20)).state is State.CANCELLED
        await (await later.enqueue()).wait(timeout=20)
    assert told == []
    assert await sql.fetchval("SELECT count(*) FROM jobs WHERE kind LIKE '%/on\\_%'") == 0


async def test_a_hook_is_retried_by_its_own_policy_and_its_success_is_soon_forgotten(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    tries: list[int] = []

    @app.job
    async def work() -> None: ...

    @work.on_success(retry=Retry(attempts=3, minimum="0s", jitter="0s"), timeout="5s")
    async def shaky(ctx: Context) -> None:
        tries.append(ctx.job.attempt)
        assert ctx.job.max_attempts == 3
        if ctx.job.attempt < 3:
            raise OSError("mail server is away")

    async with app.worker():
        await work.enqueue()
        await eventually(lambda: hooks_done(sql, 1))
    assert tries == [1, 2, 3]
    rules = await sql.fetch("SELECT state, keep FROM retention WHERE kind = 'work/on_success'")
    assert [tuple(rule) for rule in rules] == [("completed", timedelta(hours=1))]


async def test_a_hook_is_claimed_in_its_kinds_lane(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    @app.job(lane="reports")
    async def work() -> None: ...

    @work.on_success
    async def done() -> None: ...

    async with app.worker(["reports"]):
        await work.enqueue()
        await eventually(lambda: hooks_done(sql, 1))
        await app.lanes.set("default", kinds=["*", "work"])
    assert await sql.fetchval("SELECT lane FROM jobs WHERE kind = 'work/on_success'") == "reports"
    async with app.worker(["default"]):
        await work.options(tenant="acme").enqueue()
        await eventually(lambda: hooks_done(sql, 2))
    newest = await sql.fetchrow("SELECT lane, tenant FROM jobs WHERE kind = 'work/on_success' ORDER BY id DESC LIMIT 1")
    assert newest is not None
    assert tuple(newest) == ("default", "acme")


async def test_a_hook_waits_in_the_database_for_a_worker_that_knows_it(
    make_app: Callable[..., Rowlock], sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    first, second = make_app(), make_app()
    task, told = hooked(first, blocking=False)
    job = await task.enqueue("fail")
    async with opened(first.database().url) as store:
        await store.execute("UPDATE {s}.jobs SET attempt = 1 WHERE id = $1", job.id)
        (claim,) = await store.claim(await store.worker(), job.id)
        row = await store.one(
            "complete_hooked",
            channel=store.database.channel,
            ids=[claim.job_id],
            fences=[claim.fence],
            states=["failed"],
            results=[None],
            errors=['{"reason": "attempts exhausted", "message": "no ink", "type": "ValueError"}'],
            hooks=["work/on_exhausted"],
            hook_attempts=[5],
        )
        assert (list(row["ids"]), list(row["hook_kinds"])) == ([job.id], ["work/on_exhausted"])
    assert told == []
    _, told = hooked(second, blocking=False)
    async with second.worker():
        await eventually(lambda: hooks_done(sql, 1))
    assert told == [("exhausted", job.id, 2, "ValueError", "no ink", "attempts exhausted", "service")]


async def test_a_stale_claim_inserts_no_hook(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    async with opened(app.database().url) as store:
        me = await store.worker()
        first, second = await store.enqueue("work"), await store.enqueue("work")
        stale = await store.claim(me, first, second)
        await store.stop(first)
        await store.give_back(stale[1])
        columns: dict[str, Any] = {
            "channel": store.database.channel,
            "ids": [first, second],
            "fences": [claim.fence for claim in stale],
            "errors": [None, None],
            "hooks": ["work/on_exhausted"] * 2,
            "hook_attempts": [5, 5],
        }
        row = await store.one("complete_hooked", states=["failed"] * 2, results=[None] * 2, **columns)
        assert (list(row["ids"]), row["hook_kinds"]) == ([], None)
        row = await store.one(
            "give_back_hooked",
            states=["queued"] * 2,
            deaths=[0, 0],
            delays=[0.0, 0.0],
            refunds=[0, 0],
            outcomes=["failed"] * 2,
            **columns,
        )
        assert (list(row["ids"]), row["hook_kinds"]) == ([], None)
        # A cancel that came meanwhile wins over another attempt, and over its hook.
        (claim,) = await store.claim(me, second)
        await store.cancel_running(second)
        columns |= {"ids": [second], "fences": [claim.fence], "errors": [None], "hooks": ["x"], "hook_attempts": [5]}
        rest = {"states": ["queued"], "deaths": [0], "delays": [0.0], "refunds": [0], "outcomes": ["failed"]}
        row = await store.one("give_back_hooked", **rest, **columns)
        assert (list(row["ids"]), row["hook_kinds"]) == ([second], None)
    assert await sql.fetchval("SELECT count(*) FROM jobs") == 2


@pytest.mark.parametrize("how", ["too old", "expired", "worker lost", "quarantined"])
async def test_what_upkeep_ends_is_told_too(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], how: str) -> None:
    told: list[tuple[int, Any, str]] = []

    @app.job(on_worker_lost="fail" if how == "worker lost" else "retry")
    async def work() -> None: ...

    @app.job
    async def unhooked() -> None: ...

    @work.on_exhausted
    async def exhausted(job: Job, error: Failure) -> None:
        told.append((job.id, job.state, error.reason))

    async with app.worker(["default"]):
        pass  # registers the kinds
    async with opened(app.database().url) as store:
        options: dict[str, Any] = {"max_age": timedelta(0)} if how == "too old" else {}
        options |= {"expires_in": timedelta(0)} if how == "expired" else {}
        jobs = [await store.enqueue(kind, **options) for kind in ("work", "unhooked")]
        if how in ("worker lost", "quarantined"):
            me = await store.worker()
            await store.claim(me, *jobs)
            await store.silence(me)
            await store.execute("UPDATE {s}.jobs SET losses = 14")
            assert await store.rescue() == jobs
        else:
            state, error = ("failed", '{"reason": "too old"}') if how == "too old" else ("expired", None)
            name = "too_old" if how == "too old" else "expire"
            row = await store.one(name, state=state, error=error, channel=store.database.channel)
            assert list(row["ids"]) == jobs
    async with app.worker():
        await eventually(lambda: hooks_done(sql, 1), within=20)
    assert told == [(jobs[0], State.EXPIRED if how == "expired" else State.FAILED, how)]
    assert await sql.fetchval("SELECT count(*) FROM jobs WHERE kind LIKE 'unhooked/%'") == 0


async def test_jobs_under_an_old_name_have_the_hooks_of_the_new_one(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    told: list[int] = []

    @app.job("new", aliases=["old"])
    async def work() -> None: ...

    @work.on_success
    async def done(job: Job) -> None:
        told.append(job.id)

    @work.on_exhausted
    async def exhausted(job: Job) -> None:
        told.append(job.id)

    async with app.worker():
        pass  # registers the kinds
    async with opened(app.database().url) as store:
        late, fine = await store.enqueue("old", max_age=timedelta(0)), await store.enqueue("old")
        assert await store.too_old() == [late]
    async with app.worker():
        await eventually(lambda: hooks_done(sql, 2))
    assert sorted(told) == [late, fine]


async def test_a_hook_whose_job_is_gone_is_told_what_was_recorded(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    told: list[Job] = []

    @app.job
    async def work() -> None: ...

    @work.on_exhausted
    async def exhausted(job: Job) -> None:
        told.append(job)

    await sql.execute(
        "INSERT INTO jobs (kind, args) VALUES ('work/on_exhausted', "
        """'{"job": 77, "fence": 4, "attempt": 2, "state": "failed", "error": null}')"""
    )
    async with app.worker():
        await eventually(lambda: hooks_done(sql, 1))
    assert [(job.id, job.kind, job.state, job.attempt, job.args) for job in told] == [(77, "work", State.FAILED, 2, {})]


async def test_an_outcome_that_cannot_be_stored_is_told_as_a_failure(
    app: Rowlock, sql: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    @app.job
    async def work() -> str:
        return "x"

    @work.on_exhausted
    async def exhausted(error: Failure) -> None:
        told.append(error.reason)

    codec = app.handlers["work"].codec
    monkeypatch.setattr(type(codec), "encode_result", lambda _self, value: value and '"\\u0000"')
    async with app.worker():
        await work.enqueue()
        await eventually(lambda: hooks_done(sql, 1))
    assert told == ["outcome cannot be stored"]


async def test_hooks_are_no_tasks(app: Rowlock) -> None:
    @app.job
    async def work() -> None: ...

    @work.on_success
    async def done() -> None: ...

    assert list(app.tasks) == ["work"]
    assert sorted(app.handlers) == ["work", "work/on_success"]
    with pytest.raises(ConfigurationError, match="There is no kind 'work/on_success'"):
        app.task("work/on_success")


def test_hooks_that_ask_for_what_there_is_not_are_refused() -> None:
    app = Rowlock("postgresql://nowhere/x")

    @app.job
    async def work() -> None: ...

    with pytest.raises(ConfigurationError, match=r"work\.on_success: error asks for Failure, which does not exist"):

        @work.on_success
        async def first(error: Failure) -> None: ...

    with pytest.raises(ConfigurationError, match=r"work\.on_failure: nothing says what to pass as n, which is .*int"):

        @work.on_failure
        async def second(n: int = 3) -> None: ...

    @work.on_failure
    async def third() -> None: ...

    with pytest.raises(ConfigurationError, match="work has a function for on_failure already"):

        @work.on_failure
        async def fourth() -> None: ...


def test_a_lane_names_a_hook_by_itself_only_if_it_wants_to() -> None:
    from rowlock.model.lane import kinds_by_lane  # noqa: PLC0415 - the one test of it

    lanes = [Lane("a", kinds=("work",)), Lane("b", kinds=("*", "other/on_success"))]
    served = kinds_by_lane(lanes, ["work", "work/on_success", "other", "other/on_success", "x/on_failure", "work/x"])
    assert served == {
        "a": ["work", "work/on_success"],
        "b": ["other", "other/on_success", "work/x", "x/on_failure"],
    }
