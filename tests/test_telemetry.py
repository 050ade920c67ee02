from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually, in_time, until_cancelled
from typing_extensions import override

from rowlock import ConfigurationError, Context, JobLogFilter, Retry, Rowlock, Settings, Snooze, SyncContext
from rowlock.telemetry import (
    EVENTS,
    BatchClaimed,
    BatchFlushed,
    Event,
    JobClaimed,
    JobEnqueued,
    JobEvent,
    JobFinished,
    JobLost,
    JobRetried,
    JobSnoozed,
    JobStarted,
    LaneChanged,
    LoopBlocked,
    UpkeepDone,
    WorkerDraining,
    WorkerStarted,
    WorkerStopped,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_BATCHES = (BatchClaimed, BatchFlushed)
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "events.md"


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url, settings=Settings()) as app:
        yield app


async def test_a_jobs_life_is_told_in_order(app: Rowlock) -> None:
    told: list[Event] = []
    app.on_event(told.append)
    turns: list[int] = []

    @app.job(retry=Retry(attempts=3, minimum="0s", jitter="0s"))
    async def work() -> Snooze | str:
        turns.append(1)
        if len(turns) == 1:
            return Snooze("1ms")
        if len(turns) == 2:
            raise ValueError("no ink")
        return "done"

    # A worker that is already there may claim the job before the call that enqueues it has returned.
    job = await work.enqueue()
    async with app.worker(name="w") as worker:
        assert worker is not None
        await job.wait(timeout=20)
        await eventually(lambda: heard(told, JobFinished))
        await eventually(lambda: searched_orphans(told))  # at the first beat, which may come after the job's end
    mine = [event for event in told if isinstance(event, JobEvent)]
    assert {(event.job_id, event.kind, event.public_id) for event in mine} == {(job.id, "work", job.public_id)}
    # The next run may be claimed before this process hears that the outcome of the last one is written.
    runs = [event for event in mine if isinstance(event, (JobClaimed, JobStarted))]
    outcomes = [event for event in mine[1:] if event not in runs]
    assert isinstance(mine[0], JobEnqueued)
    assert [type(event) for event in runs] == [JobClaimed, JobStarted] * 3
    assert [type(event) for event in outcomes] == [JobSnoozed, JobRetried, JobFinished]
    assert all(mine.index(run) < mine.index(end) for run, end in zip(runs[1::2], outcomes, strict=True))
    _, retried, finished = outcomes
    assert isinstance(retried, JobRetried)
    assert (retried.lane, retried.attempt) == ("default", 1)
    assert retried.error is not None
    assert retried.error["message"] == "no ink"
    assert isinstance(finished, JobFinished)
    assert (finished.state, finished.attempt, finished.error) == ("completed", 2, None)
    assert finished.seconds >= 0
    others = [
        event for event in told if not isinstance(event, (JobEvent, UpkeepDone, LaneChanged, LoopBlocked, *_BATCHES))
    ]
    assert others == [
        WorkerStarted(worker.id, "w", ["default"]),
        WorkerDraining(worker.id, "w"),
        WorkerStopped(worker.id, "w"),
    ]


async def test_a_lost_claim_a_changed_lane_and_a_blocked_loop_are_told(database_url: str) -> None:
    told: list[Event] = []
    async with Rowlock(database_url, settings=Settings()) as app:
        app.on_event(told.append)
        running, go = asyncio.Event(), threading.Event()

        @app.job
        async def work() -> None:
            running.set()
            await until_cancelled()

        @app.job
        async def block() -> None:
            go.wait(20)

        async with app.worker():
            job = await work.enqueue()
            await in_time(running.wait())
            await app.jobs.stop(job.id)
            await eventually(lambda: heard(told, JobLost))
            await app.lanes.set("default", slots=3)
            await eventually(lambda: heard(told, LaneChanged))
            app.listen(LoopBlocked)(lambda _: go.set())
            await (await block.enqueue()).wait(timeout=30)
        (lost,) = [event for event in told if isinstance(event, JobLost)]
        (blocked,) = [event for event in told if isinstance(event, LoopBlocked)]
        (changed,) = [event for event in told if isinstance(event, LaneChanged)]
        assert lost.job_id == job.id
        assert "wait" in blocked.place
        assert changed.now is not None
        assert (changed.lane, changed.now.slots) == ("default", 3)


async def test_a_listener_hears_what_it_asked_for_and_what_it_raises_touches_no_job(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    heard_by: list[str] = []

    @app.listen(JobFinished, JobStarted)
    def broken(event: Event) -> None:
        heard_by.append(event.name)
        raise OSError("metrics are away")

    @app.job
    async def work() -> str:
        return "done"

    async with app.worker():
        assert await (await work.enqueue()).wait(timeout=20) == "done"
        await eventually(lambda: done_hearing(heard_by))
    assert heard_by == ["job.started", "job.finished"]
    assert "a listener failed at job.finished" in caplog.text
    assert "metrics are away" in caplog.text


def test_listeners_that_cannot_be_called_are_refused() -> None:
    app = Rowlock("postgresql://nowhere/x")

    async def later(_: Event) -> None: ...

    with pytest.raises(ConfigurationError, match="cannot be awaited: write a plain function"):
        app.on_event(later)
    with pytest.raises(ConfigurationError, match=r"Expected event classes such as JobFinished; got 'job\.finished'"):
        app.listen("job.finished")(print)  # type: ignore[arg-type]


def test_the_reference_lists_every_event_with_its_fields() -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \| `(\w+)` \| ([^|]*)\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    written = {name: (kind, re.findall(r"`(\w+)`", fields)) for name, kind, fields in rows}
    assert written == {event.name: (event.__name__, own_fields(event)) for event in EVENTS}
    assert {event.__name__ for event in EVENTS} == known_classes()


def own_fields(event: type[Event]) -> list[str]:
    common = {"job_id", "kind", "lane", "attempt", "fence"} if issubclass(event, JobEvent) else set()
    return [field.name for field in dataclasses.fields(event) if field.name not in common]


def known_classes() -> set[str]:
    def below(event: type[Event]) -> set[type[Event]]:
        return {event} | {leaf for child in event.__subclasses__() for leaf in below(child)}

    # A dataclass with slots is made twice; the first one is a ghost.
    return {event.__name__ for event in below(Event) if hasattr(event, "name")}


# --- logging ---------------------------------------------------------------------------------------------------------


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    handler.addFilter(JobLogFilter())
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


async def test_whatever_is_logged_inside_a_handler_carries_the_job(app: Rowlock, kept: Kept) -> None:
    library = logging.getLogger("some.library")
    library.setLevel(logging.INFO)

    @app.job
    async def first() -> None:
        library.info("on the loop")
        await asyncio.create_task(inner())

    async def inner() -> None:
        library.info("in a task", extra={"kind": "its own"})

    @app.job
    def second(ctx: SyncContext) -> None:
        library.info("in a thread")
        ctx.log.warning("by the context", extra={"page": 3})

    async with app.worker():
        jobs = [await first.enqueue(), await second.enqueue()]
        for job in jobs:
            await job.wait(timeout=20)
        library.info("outside")
    by = {record.getMessage(): record for record in kept.records}
    loop, task, thread, context = (
        by[message] for message in ("on the loop", "in a task", "in a thread", "by the context")
    )
    for record, job in ((loop, jobs[0]), (task, jobs[0]), (thread, jobs[1]), (context, jobs[1])):
        values = vars(record)
        assert values["job_id"] == job.public_id
        assert (values["lane"], values["attempt"], values["fence"]) == ("default", 1, 1)
    assert (vars(loop)["kind"], vars(task)["kind"], vars(context)["page"]) == ("first", "its own", 3)
    assert "job_id" not in vars(by["outside"])


async def test_the_contexts_log_carries_the_job_without_any_filter(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        ctx.log.warning("low on ink")

    async with app.worker():
        job = await work.enqueue()
        await job.wait(timeout=20)
    (record,) = [record for record in caplog.records if record.getMessage() == "low on ink"]
    assert (record.name, vars(record)["job_id"], vars(record)["kind"]) == ("rowlock.handler", job.public_id, "work")


async def heard(told: list[Event], kind: type[Event]) -> bool:
    return any(isinstance(event, kind) for event in told)


async def searched_orphans(told: list[Event]) -> bool:
    return any(isinstance(event, UpkeepDone) and event.duty == "orphans" for event in told)


async def done_hearing(names: list[str]) -> bool:
    return len(names) == 2
