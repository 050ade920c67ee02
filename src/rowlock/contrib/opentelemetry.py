"""OpenTelemetry: traces from the enqueue to the run and beyond, spans and metrics of every job.

    from rowlock.contrib.opentelemetry import instrument

    instrument(app)

Only the OpenTelemetry API is needed; the application sets up the SDK and its exporters as it does for everything else.
Names follow the messaging conventions of the version in SCHEMA_URL: they are experimental and change with it.
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, assert_never, get_args

from rowlock.errors import ConfigurationError, DatabaseError, MissingExtra
from rowlock.model import ids, trace_context
from rowlock.model.outcome import Cancel, Died, Failed, Partial, Retried, Snooze
from rowlock.telemetry import (
    TRACED,
    AttemptEvent,
    BatchClaimed,
    BatchFlushed,
    JobDied,
    JobEnqueued,
    JobFinished,
    JobInterrupted,
    JobLost,
    JobRetried,
    JobSnoozed,
    JobSuspended,
    JobUnreadable,
)

try:
    from opentelemetry import context as otel_context
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.metrics import Observation
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
except ImportError as error:
    raise MissingExtra("opentelemetry-api", "otel") from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from opentelemetry.context import Context as OtelContext
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Span, SpanContext, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from rowlock.app import Rowlock
    from rowlock.flow.enqueue.middleware import EnqueueCall
    from rowlock.flow.progress.context import Context
    from rowlock.model.job import Job
    from rowlock.model.outcome import Outcome
    from rowlock.model.workload import Overview
    from rowlock.telemetry import JobClaimed

Relation = Literal["parent", "link"]
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions that spans and metrics follow."""
_SCOPE: Final = "rowlock"
_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 60.0, 600.0, 3600.0)
"""Upper bounds of the buckets in seconds: those of the conventions, and longer ones, as jobs may take hours."""
_MOST_LINKS: Final = 128
"""Links of one span, the limit of the SDK; a claim or flush may be larger."""
_CACHED: Final = 5.0
"""Seconds for which the gauges of the database are cached."""


def instrument(
    app: Rowlock,
    *,
    relation: Relation = "parent",
    batch_spans: bool = True,
    gauges: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagator: TextMapPropagator | None = None,
) -> None:
    """Trace and measure the jobs of an application, in processes that enqueue and in those that run. Call it once.

    relation: whether a run is a child of its enqueue, or a trace of its own that links to it. batch_spans: spans of
    claims and flushes, which are traces of their own. gauges: depth and use of lanes, read from the database at every
    export; enable them in one process. Providers and propagator: OpenTelemetry's global ones unless given.
    """
    if relation not in get_args(Relation):
        message = f'relation must be "parent" or "link"; got {relation!r}.'
        raise ConfigurationError(message)
    app.extend_once("rowlock.contrib.opentelemetry.instrument")
    meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider, schema_url=SCHEMA_URL)
    tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider, schema_url=SCHEMA_URL)
    measures = _Measures(meter)
    spans = _Spans(tracer, propagator, relation, measures)

    # Registered as functions: middleware is told apart by what kind of function it is.
    @app.enqueue_middleware
    def trace_enqueue(call: EnqueueCall) -> Iterator[None]:
        yield from spans.enqueue(call)

    @app.middleware
    async def trace_run(ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
        return await spans.run(ctx, call)

    app.listen(JobEnqueued)(measures.enqueued)
    app.listen(BatchClaimed)(measures.claimed)
    app.listen(AttemptEvent)(measures.ended)
    app.listen(BatchFlushed)(measures.flushed)
    if batch_spans:
        app.listen(BatchClaimed)(spans.claimed)
        app.listen(BatchFlushed)(spans.flushed)
        app.listen(JobLost)(spans.lost)
    if gauges:
        _Gauges(app).create(meter)


# --- spans -----------------------------------------------------------------------------------------------------------


class _Spans:
    """Makes the spans of one application."""

    def __init__(
        self, tracer: trace.Tracer, propagator: TextMapPropagator | None, relation: Relation, measures: _Measures
    ) -> None:
        self._tracer, self._given, self._relation, self._measures = tracer, propagator, relation, measures
        self._runs: dict[tuple[int, int], SpanContext] = {}
        """By job id and fence: spans of attempts whose outcome is not flushed yet."""
        self._flushes = False
        """Whether outcomes are flushed in this process; a child process leaves that to its worker."""

    @property
    def _propagator(self) -> TextMapPropagator:
        return self._given or propagate.get_global_textmap()

    def enqueue(self, call: EnqueueCall) -> Iterator[None]:
        """The span of one call, whose context is stored with its jobs."""
        attributes = _about("enqueue", "send", call.kind)
        if len(call.calls) != 1:
            attributes["messaging.batch.message_count"] = len(call.calls)
        began = time.perf_counter()
        # Not made current: the steps of a workflow are enqueued by one call each, the later inside the earlier.
        span = self._tracer.start_span(f"enqueue {call.kind}", kind=SpanKind.PRODUCER, attributes=attributes)
        headers: dict[str, str] = {}
        self._propagator.inject(headers, context=trace.set_span_in_context(span))
        call.add_trace(headers)
        failure: str | None = None
        try:
            yield
        except BaseException as error:
            failure = _class_name(error)
            span.set_attribute("error.type", failure)
            span.set_status(Status(StatusCode.ERROR, failure))
            raise
        finally:
            if len(call.ids) == 1:
                span.set_attributes(_job_ids(call.ids[0]))
            span.end()
            self._measures.operation("enqueue", "send", time.perf_counter() - began, failure)

    async def run(self, ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
        """The span of one attempt, current in its handler."""
        # Extracted into an empty context: whatever is current in a worker concerns no job.
        stored = self._propagator.extract(trace_context.headers(ctx.job.meta), context=otel_context.Context())
        parent, links = self._related(stored)
        job = ctx.job
        span = self._tracer.start_span(
            f"run {job.kind}", parent, SpanKind.CONSUMER, attributes=_attempt(job), links=links
        )
        here = span.get_span_context()
        if here.is_valid:
            # Left as it is at the end: the log line about the outcome belongs to this span, too.
            TRACED.set({"trace_id": f"{here.trace_id:032x}", "span_id": f"{here.span_id:016x}"})
        token = otel_context.attach(trace.set_span_in_context(span, stored))
        try:
            value = await call()
        except BaseException as error:
            _end_badly(span, ctx.outcome_of(error))
            raise
        else:
            span.set_attribute("rowlock.outcome", _returned(value))
            return value
        finally:
            otel_context.detach(token)
            span.end()
            if self._flushes and here.is_valid:
                self._runs[ctx.claim.job_id, ctx.claim.fence] = here

    def _related(self, stored: OtelContext) -> tuple[OtelContext, Sequence[Link]]:
        match self._relation:
            case "parent":
                return stored, ()
            case "link":
                return otel_context.Context(), _links([trace.get_current_span(stored).get_span_context()])
            case _:
                assert_never(self._relation)

    def claimed(self, event: BatchClaimed) -> None:
        """A claim, with links to the enqueues of its jobs."""
        self._flushes = True
        spans = [self._enqueue_of(job) for job in event.jobs]
        self._batch("claim", "receive", event.jobs, spans, event.seconds)

    def flushed(self, event: BatchFlushed) -> None:
        """A flush, with links to the runs whose outcomes it wrote; those in child processes are not known here."""
        spans = [self._runs.pop((job.job_id, job.fence), None) for job in event.jobs]
        self._batch("flush", "settle", event.jobs, [span for span in spans if span is not None], event.seconds)

    def lost(self, event: JobLost) -> None:
        """An attempt without its claim is never flushed."""
        self._runs.pop((event.job_id, event.fence), None)

    def _enqueue_of(self, job: JobClaimed) -> SpanContext:
        stored = self._propagator.extract(job.trace, context=otel_context.Context())
        return trace.get_current_span(stored).get_span_context()

    def _batch(
        self, name: str, operation: str, jobs: Sequence[AttemptEvent], spans: Sequence[SpanContext], seconds: float
    ) -> None:
        """A span of the past, which ended just now."""
        kinds, lanes = {job.kind for job in jobs}, {job.lane for job in jobs}
        kind = next(iter(kinds)) if len(kinds) == 1 else None
        attributes = _about(name, operation, kind)
        attributes["messaging.batch.message_count"] = len(jobs)
        if len(lanes) == 1:
            attributes["messaging.consumer.group.name"] = next(iter(lanes))
        if len(jobs) == 1:
            attributes |= _job_ids(jobs[0].job_id)
        now = time.time_ns()
        span = self._tracer.start_span(
            name if kind is None else f"{name} {kind}",
            otel_context.Context(),
            SpanKind.CLIENT,
            attributes,
            _links(spans),
            start_time=now - round(seconds * 1e9),
        )
        span.end(now)


def _links(spans: Iterable[SpanContext]) -> list[Link]:
    distinct = {(one.trace_id, one.span_id): one for one in spans if one.is_valid}
    return [Link(one) for one in distinct.values()][:_MOST_LINKS]


def _about(name: str, operation: str, kind: str | None) -> dict[str, AttributeValue]:
    about: dict[str, AttributeValue] = {
        "messaging.system": "rowlock",
        "messaging.operation.name": name,
        "messaging.operation.type": operation,
    }
    return about if kind is None else {**about, "messaging.destination.name": kind}


def _job_ids(number: int) -> dict[str, AttributeValue]:
    public_id = ids.encode(number)
    return {"messaging.message.id": public_id, "rowlock.job.id": public_id, "rowlock.job.number": number}


def _attempt(job: Job) -> dict[str, AttributeValue]:
    about: dict[str, AttributeValue] = {
        **_about("run", "process", job.kind),
        **_job_ids(job.id),
        "messaging.consumer.group.name": job.lane or "",
        "rowlock.job.attempt": job.attempt,
        "rowlock.job.max_attempts": job.max_attempts,
    }
    if job.workflow is not None:
        about["rowlock.workflow.id"] = job.workflow
    if job.step is not None:
        about["rowlock.workflow.step"] = job.step
    return about


def _returned(value: object) -> str:
    match value:
        case Snooze():
            return "snoozed"
        case Cancel():
            return "cancelled"
        case Partial():
            return "completed_with_errors"
        case _:
            return "completed"


def _end_badly(span: Span, outcome: Outcome) -> None:
    """Only a failure is an error: a snooze, a cancel or a shutdown is raised, too."""
    span.set_attribute("rowlock.outcome", type(outcome).__name__.lower())
    if isinstance(outcome, Failed | Retried | Died):
        error = outcome.error
        span.set_attribute("error.type", str(error.get("type") or error.get("reason") or "_OTHER"))
        # The stored error is without secrets; the exception itself is not.
        span.set_status(Status(StatusCode.ERROR, str(error.get("message") or "")))
        about = {"type": "exception.type", "message": "exception.message", "traceback": "exception.stacktrace"}
        span.add_event("exception", {name: str(error[key]) for key, name in about.items() if error.get(key)})


def _class_name(error: BaseException) -> str:
    of = type(error)
    return of.__qualname__ if of.__module__ == "builtins" else f"{of.__module__}.{of.__qualname__}"


# --- metrics ---------------------------------------------------------------------------------------------------------


class _Measures:
    """The instruments of one application. Attempts in child processes are measured by their worker."""

    def __init__(self, meter: Meter) -> None:
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs enqueued.")
        self._consumed = meter.create_counter("messaging.client.consumed.messages", "{message}", "Jobs claimed.")
        self._operation = _histogram(
            meter, "messaging.client.operation.duration", "Duration of enqueues, claims and flushes."
        )
        self._process = _histogram(meter, "messaging.process.duration", "Duration of attempts.")
        self._wait = _histogram(meter, "rowlock.job.wait.duration", "How long due jobs waited for their claim.")

    def operation(self, name: str, operation: str, seconds: float, failure: str | None = None) -> None:
        """Record a statement; without the kind, as one claim or flush is for many."""
        failed = {} if failure is None else {"error.type": failure}
        self._operation.record(seconds, {**_about(name, operation, None), **failed})

    def enqueued(self, event: JobEnqueued) -> None:
        """Count a job; not one that was there already."""
        if event.what == "created":
            self._sent.add(1, _about("enqueue", "send", event.kind))

    def claimed(self, event: BatchClaimed) -> None:
        """Record a claim, and how long its jobs had waited."""
        self.operation("claim", "receive", event.seconds)
        for kind, jobs in groupby(sorted(event.jobs, key=_kind), key=_kind):
            about = _about("claim", "receive", kind)
            waits = [job.waited.total_seconds() for job in jobs]
            self._consumed.add(len(waits), about)
            for wait in waits:
                self._wait.record(max(0.0, wait), about)

    def flushed(self, event: BatchFlushed) -> None:
        """Record a flush."""
        self.operation("flush", "settle", event.seconds)

    def ended(self, event: AttemptEvent) -> None:
        """Record an attempt that has ended."""
        outcome = _outcome(event)
        if outcome is None:
            return
        about = {**_about("run", "process", event.kind), "messaging.consumer.group.name": event.lane}
        about["rowlock.outcome"] = outcome
        error: Mapping[str, object] | None = getattr(event, "error", None)
        if error is not None and outcome in ("failed", "retried", "died"):
            about["error.type"] = str(error.get("type") or error.get("reason") or "_OTHER")
        self._process.record(getattr(event, "seconds", 0.0), about)


def _kind(event: AttemptEvent) -> str:
    return event.kind


def _outcome(event: AttemptEvent) -> str | None:
    """How the attempt ended; None: it has not."""
    if isinstance(event, JobFinished):
        return event.state
    names: dict[type[AttemptEvent], str] = {
        JobRetried: "retried",
        JobSnoozed: "snoozed",
        JobUnreadable: "unreadable",
        JobSuspended: "waiting",
        JobInterrupted: "interrupted",
        JobDied: "died",
        JobLost: "lost",
    }
    return names.get(type(event))


def _histogram(meter: Meter, name: str, text: str) -> metrics.Histogram:
    return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=_BOUNDS)


class _Gauges:
    """Gauges of the whole database, the same in every process."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app
        self._read_at = float("-inf")
        self._last: Overview | None = None

    def create(self, meter: Meter) -> None:
        """Create the gauges; the meter's reader calls them back, in a thread of its own."""
        by_lane: dict[str, tuple[str, str, Callable[[Overview], dict[str, float]]]] = {
            "rowlock.lane.due": ("{job}", "Due jobs.", lambda o: {x.lane.name: x.due.value for x in o.lanes}),
            "rowlock.lane.running": ("{job}", "Running jobs.", lambda o: {x.lane.name: x.running for x in o.lanes}),
            "rowlock.lane.slots": (
                "{slot}",
                "Slots of its workers.",
                lambda o: {x.lane.name: x.slots for x in o.lanes},
            ),
            "rowlock.lane.oldest_wait": (
                "s",
                "How long the oldest due job has waited.",
                lambda o: {x.lane.name: x.oldest_wait.total_seconds() if x.oldest_wait else 0.0 for x in o.lanes},
            ),
        }
        for name, (unit, text, values) in by_lane.items():
            self._gauge(meter, name, (unit, text), "rowlock.lane", values)
        self._gauge(
            meter,
            "rowlock.jobs",
            ("{job}", "Live jobs and kept failures, at least so many."),
            "rowlock.state",
            lambda overview: {str(state): count.value for state, count in overview.states.items()},
        )

    def _gauge(
        self,
        meter: Meter,
        name: str,
        described: tuple[str, str],
        label: str,
        values: Callable[[Overview], dict[str, float]],
    ) -> None:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            overview = self._overview()
            return [] if overview is None else [Observation(n, {label: key}) for key, n in values(overview).items()]

        meter.create_observable_gauge(name, [observe], *described)

    def _overview(self) -> Overview | None:
        if time.monotonic() - self._read_at >= _CACHED:
            try:
                self._last = self._app.sync.stats.overview(window="5m")
            except DatabaseError:
                self._last = None
            # From the end of the read: a slow one is not repeated at once.
            self._read_at = time.monotonic()
        return self._last
