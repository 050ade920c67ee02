from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import SecretStr
from tests.waiting import eventually, until

from rowlock import ConfigurationError, Context, JobLogFilter, Retry, Rowlock, Settings, Snooze, chain
from rowlock.contrib.opentelemetry import SCHEMA_URL, instrument
from rowlock.telemetry import BatchClaimed, BatchFlushed, Event, JobFinished

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.tasks import BaseTask


@dataclass
class Traced:
    """An application, and what it exported."""

    app: Rowlock
    provider: TracerProvider
    spans: InMemorySpanExporter
    meters: MeterProvider
    metrics: InMemoryMetricReader
    events: list[Event] = field(default_factory=list)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    async def ran(self, *names: str) -> None:
        """Wait until spans of these names are there, and the outcomes of all runs are written."""
        await until(lambda: all(self.named(name) for name in names))

    def measured(self) -> dict[str, list[Any]]:
        data = self.metrics.get_metrics_data()
        assert data is not None
        (scope,) = [one for resource in data.resource_metrics for one in resource.scope_metrics]
        return {metric.name: list(metric.data.data_points) for metric in scope.metrics}


@pytest.fixture
async def traced(database_url: str) -> AsyncIterator[Traced]:
    async with Rowlock(database_url, settings=Settings()) as app:
        spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        meters = MeterProvider([reader])
        yield Traced(app, provider, spans, meters, reader)
        meters.shutdown()
        provider.shutdown()


def instrumented(traced: Traced, **options: Any) -> Rowlock:  # noqa: ANN401 - those of instrument()
    instrument(traced.app, tracer_provider=traced.provider, meter_provider=traced.meters, **options)
    traced.app.on_event(traced.events.append)
    return traced.app


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def worked(app: Rowlock, *jobs: Any) -> None:  # noqa: ANN401 - handles of any result
    async with app.worker():
        for job in jobs:
            await job.wait(timeout=30)


async def test_a_run_goes_on_with_the_trace_of_its_enqueue(traced: Traced) -> None:
    app = instrumented(traced)
    seen: list[tuple[int, int]] = []

    @app.job(lane="letters")
    async def greet(name: str) -> str:
        here = trace.get_current_span().get_span_context()
        seen.append((here.trace_id, here.span_id))
        return name

    with traced.provider.get_tracer("web").start_as_current_span("POST /greet") as request:
        job = await greet.enqueue("Ada")
    await worked(app, job)
    enqueue, run = traced.one("enqueue greet"), traced.one("run greet")
    outer = request.get_span_context()
    assert parent(enqueue) == (outer.trace_id, outer.span_id)
    assert parent(run) == ids(enqueue)
    assert seen == [ids(run)]
    assert (enqueue.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert run.instrumentation_scope is not None
    assert run.instrumentation_scope.schema_url == SCHEMA_URL
    assert attributes(enqueue) == {
        "messaging.system": "rowlock",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "greet",
        "messaging.message.id": job.public_id,
        "rowlock.job.id": job.public_id,
        "rowlock.job.number": job.id,
    }
    assert attributes(run) == {
        "messaging.system": "rowlock",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "greet",
        "messaging.message.id": job.public_id,
        "rowlock.job.id": job.public_id,
        "rowlock.job.number": job.id,
        "messaging.consumer.group.name": "letters",
        "rowlock.job.attempt": 1,
        "rowlock.job.max_attempts": 5,
        "rowlock.outcome": "completed",
    }
    stored = (await job.job()).meta["trace_context"]
    assert isinstance(stored, dict)
    assert stored["traceparent"].startswith(f"00-{ids(enqueue)[0]:032x}-{ids(enqueue)[1]:016x}-0")


async def test_every_retry_belongs_to_the_trace_and_its_error_has_no_secret(traced: Traced) -> None:
    app = instrumented(traced)

    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def pay(iban: SecretStr) -> None:
        raise ValueError(f"no account {iban.get_secret_value()}")

    job = await pay.enqueue(SecretStr("DE00 4711 0815"))
    async with app.worker():
        await until(lambda: len(traced.named("run pay")) == 2)
    enqueue, runs = traced.one("enqueue pay"), traced.named("run pay")
    assert [parent(run) for run in runs] == [ids(enqueue)] * 2
    assert [attributes(run)["rowlock.outcome"] for run in runs] == ["retried", "failed"]
    assert [attributes(run)["rowlock.job.attempt"] for run in runs] == [1, 2]
    for run in runs:
        assert run.status.status_code == StatusCode.ERROR
        assert attributes(run)["error.type"] == "ValueError"
        (event,) = run.events
        about = dict(event.attributes or {})
        assert about["exception.type"] == "ValueError"
        assert "raise ValueError" in str(about["exception.stacktrace"])
    assert "4711" not in "".join(span.to_json() for span in traced.spans.get_finished_spans())
    assert job.public_id in runs[0].to_json()


async def test_children_and_hooks_stay_in_the_trace(traced: Traced) -> None:
    app = instrumented(traced)

    @app.job
    async def child() -> None: ...

    @app.job
    async def mother() -> None:
        await child.enqueue()

    @mother.on_success
    async def told() -> None: ...

    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def broken() -> None:
        raise OSError("no paper")

    @broken.on_failure
    async def once_more() -> None: ...

    @broken.on_exhausted
    async def given_up() -> None: ...

    hooks = ("run broken/on_failure", "run broken/on_exhausted")
    await mother.options(meta={"page": 7}).enqueue()
    await broken.enqueue()
    async with app.worker():
        await traced.ran("run child", "run mother/on_success", *hooks)
    trace_id = ids(traced.one("run mother"))[0]
    assert parent(traced.one("enqueue child")) == ids(traced.one("run mother"))
    assert parent(traced.one("run child")) == ids(traced.one("enqueue child"))
    assert ids(traced.one("run mother/on_success"))[0] == trace_id
    assert parent(traced.one("run mother/on_success")) == ids(traced.one("enqueue mother"))
    assert {ids(traced.one(hook))[0] for hook in hooks} == {ids(traced.one("enqueue broken"))[0]}
    (hook,) = await app.jobs.list(kind="mother/on_success")
    assert set(hook.meta) == {"trace_context"}


async def test_the_hook_of_a_job_that_upkeep_ends_stays_in_the_trace(traced: Traced) -> None:
    app = instrumented(traced)

    @app.job
    async def late() -> None: ...

    @late.on_exhausted
    async def too_late() -> None: ...

    await late.options(run_in="1h", max_age="1ms").enqueue()
    async with app.worker():
        await traced.ran("run late/on_exhausted")
    assert parent(traced.one("run late/on_exhausted")) == ids(traced.one("enqueue late"))


async def test_steps_of_chains_and_schedules_carry_a_trace(traced: Traced) -> None:
    app = instrumented(traced)

    @app.job
    async def fetch() -> int:
        return 3

    @app.job
    async def shown(n: int = 0) -> int:
        return n

    @app.job
    async def nightly() -> None: ...

    with traced.provider.get_tracer("web").start_as_current_span("POST /import") as request:
        started = await chain(fetch.step(), shown.step()).enqueue()
    await app.schedules.create("night", "nightly", every="1h")
    await app.schedules.run("night")
    async with app.worker():
        await started.wait(timeout=30)
        await traced.ran("run nightly")
    outer = request.get_span_context()
    for kind in ("fetch", "shown"):
        assert parent(traced.one(f"enqueue {kind}")) == (outer.trace_id, outer.span_id)
        assert parent(traced.one(f"run {kind}")) == ids(traced.one(f"enqueue {kind}"))
        assert attributes(traced.one(f"run {kind}"))["rowlock.workflow.id"].startswith("W")
    assert parent(traced.one("enqueue nightly")) is None
    assert parent(traced.one("run nightly")) == ids(traced.one("enqueue nightly"))


async def test_a_run_may_be_a_trace_of_its_own_that_links_to_its_enqueue(traced: Traced) -> None:
    app = instrumented(traced, relation="link")

    @app.job
    async def work() -> None: ...

    await worked(app, await work.enqueue())
    enqueue, run = traced.one("enqueue work"), traced.one("run work")
    assert run.parent is None
    assert ids(run)[0] != ids(enqueue)[0]
    assert [(link.context.trace_id, link.context.span_id) for link in run.links] == [ids(enqueue)]


async def test_claims_and_flushes_have_spans_with_links_to_their_jobs(traced: Traced) -> None:
    app = instrumented(traced)

    @app.job
    async def work(n: int) -> None: ...

    jobs = await work.enqueue_many([{"n": n} for n in range(3)])
    await worked(app, *jobs)
    await until(lambda: sum(attributes(s)["messaging.batch.message_count"] for s in traced.named("flush work")) == 3)
    (enqueue,) = traced.named("enqueue work")
    assert attributes(enqueue)["messaging.batch.message_count"] == 3
    claims, flushes = traced.named("claim work"), traced.named("flush work")
    assert sum(attributes(claim)["messaging.batch.message_count"] for claim in claims) == 3
    for claim in claims:
        assert [(link.context.trace_id, link.context.span_id) for link in claim.links] == [ids(enqueue)]
        assert (claim.parent, claim.kind) == (None, SpanKind.CLIENT)
        assert claim.start_time is not None
        assert claim.end_time is not None
        assert claim.start_time < claim.end_time
    linked = {(link.context.trace_id, link.context.span_id) for flush in flushes for link in flush.links}
    assert linked == {ids(run) for run in traced.named("run work")}
    whole = [event for event in traced.events if isinstance(event, (BatchClaimed, BatchFlushed))]
    assert all(event.seconds > 0 for event in whole)
    flushed = [job for event in whole if isinstance(event, BatchFlushed) for job in event.jobs]
    assert {job.job_id for job in flushed if isinstance(job, JobFinished)} == {job.id for job in jobs}


async def test_batch_spans_can_be_left_out(traced: Traced) -> None:
    app = instrumented(traced, batch_spans=False)

    @app.job
    async def work() -> None: ...

    await worked(app, await work.enqueue())
    assert {span.name for span in traced.spans.get_finished_spans()} == {"enqueue work", "run work"}


async def test_the_context_is_current_in_the_thread_of_a_blocking_handler(traced: Traced) -> None:
    app = instrumented(traced)

    @app.job
    def work() -> list[object]:
        here = trace.get_current_span().get_span_context()
        return [here.span_id, baggage.get_baggage("customer")]

    token = context.attach(baggage.set_baggage("customer", "acme"))
    try:
        job = work.enqueue_sync()
    finally:
        context.detach(token)
    async with app.worker():
        assert await job.wait(timeout=30) == [ids(traced.one("run work"))[1], "acme"]


async def test_metrics_count_and_time_what_happens(traced: Traced) -> None:
    app = instrumented(traced, gauges=True)

    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def work(ok: bool) -> None:
        if not ok:
            raise KeyError("ink")

    @app.job
    async def snooze(ctx: Context) -> Snooze | None:
        return Snooze("0s") if ctx.job.runs == 1 else None

    await work.enqueue(ok=True)
    await work.enqueue(ok=False)
    last = await snooze.enqueue()
    async with app.worker():
        await last.wait(timeout=30)
        await eventually(lambda: _ended_all(app))
    measured = traced.measured()
    sent = {p.attributes["messaging.destination.name"]: p.value for p in measured["messaging.client.sent.messages"]}
    assert sent == {"work": 2, "snooze": 1}
    claimed = {
        p.attributes["messaging.destination.name"]: p.value for p in measured["messaging.client.consumed.messages"]
    }
    assert claimed == {"work": 3, "snooze": 2}
    runs = {
        (p.attributes["messaging.destination.name"], p.attributes["rowlock.outcome"], p.attributes.get("error.type")): p
        for p in measured["messaging.process.duration"]
    }
    assert {key: point.count for key, point in runs.items()} == {
        ("work", "completed", None): 1,
        ("work", "retried", "KeyError"): 1,
        ("work", "failed", "KeyError"): 1,
        ("snooze", "snoozed", None): 1,
        ("snooze", "completed", None): 1,
    }
    operations = {p.attributes["messaging.operation.name"] for p in measured["messaging.client.operation.duration"]}
    assert operations == {"enqueue", "claim", "flush"}
    assert sum(point.count for point in measured["rowlock.job.wait.duration"]) == 5
    lanes = {point.attributes["rowlock.lane"]: point.value for point in measured["rowlock.lane.due"]}
    assert lanes == {"default": 0}
    states = {point.attributes["rowlock.state"]: point.value for point in measured["rowlock.jobs"]}
    assert states["failed"] == 1


async def _ended_all(app: Rowlock) -> bool:
    return all(job.is_final for job in await app.jobs.list())


async def test_log_records_carry_the_trace(traced: Traced, caplog: pytest.LogCaptureFixture) -> None:
    app = instrumented(traced)
    caplog.handler.addFilter(JobLogFilter())
    caplog.set_level(logging.INFO)

    @app.job
    async def work() -> None:
        logging.getLogger("shop").info("packing")

    await worked(app, await work.enqueue())
    caplog.handler.filters.clear()
    trace_id, span_id = ids(traced.one("run work"))
    told = {
        (r.name, r.getMessage()[:8].strip()): r.__dict__ for r in caplog.records if r.name in ("shop", "rowlock.job")
    }
    assert len(told) == 3
    assert {fields["trace_id"] for fields in told.values()} == {f"{trace_id:032x}"}
    assert told["shop", "packing"]["span_id"] == told["rowlock.job", "← done"]["span_id"] == f"{span_id:016x}"


async def test_without_a_tracer_nothing_is_stored(database_url: str) -> None:
    async with Rowlock(database_url, settings=Settings()) as app:
        instrument(app)

        @app.job
        async def work() -> str:
            return "done"

        job = await work.enqueue()
        assert (await job.job()).meta == {}
        async with app.worker():
            assert await job.wait(timeout=30) == "done"


@pytest.mark.parametrize("stored", [7, {"traceparent": "nonsense"}, {"traceparent": 7}, ["x"], None])
async def test_a_stored_context_that_cannot_be_read_begins_a_new_trace(traced: Traced, stored: object) -> None:
    app = traced.app

    @app.job
    async def work() -> None: ...

    job = await work.options(meta={"trace_context": stored}).enqueue()
    instrumented(traced)
    await worked(app, job)
    assert traced.one("run work").parent is None


async def test_an_enqueue_that_fails_is_an_error(traced: Traced) -> None:
    app = instrumented(traced)

    @app.job
    async def work() -> None: ...

    taken = work.options(unique_key="one")
    await taken.enqueue()
    with pytest.raises(Exception, match="already queued"):
        await taken.enqueue()
    first, second = traced.named("enqueue work")
    assert first.status.status_code == StatusCode.UNSET
    assert attributes(second)["error.type"] == "rowlock.errors.UniqueConflict"
    assert second.status.status_code == StatusCode.ERROR


async def test_another_propagator_may_be_given(traced: Traced) -> None:
    app = instrumented(traced, propagator=propagate.get_global_textmap())
    task: BaseTask[..., Any] = app.job(_nothing)
    await worked(app, await task.enqueue())
    assert parent(traced.one("run _nothing")) == ids(traced.one("enqueue _nothing"))


async def _nothing() -> None: ...


async def test_mistakes_are_refused(traced: Traced) -> None:
    with pytest.raises(ConfigurationError, match='relation must be "parent" or "link"; got \'child\''):
        instrument(traced.app, relation="child")  # type: ignore[arg-type]
    instrument(traced.app)
    with pytest.raises(ConfigurationError, match=r"instrument\(\) was called for this application before"):
        instrument(traced.app)
