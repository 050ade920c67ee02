"""Sentry: jobs that fail become events, with their job, and traces go on from the enqueue to the run.

import sentry_sdk
from rowlock.contrib.sentry import report_failures

sentry_sdk.init(dsn=...)
report_failures(app)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import MissingExtra
from rowlock.model import ids, redact, trace_context
from rowlock.model.outcome import Failed, Retried
from rowlock.telemetry import CURRENT, JobDied, JobFinished, JobRescued, JobRetried

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
except ImportError as error:
    raise MissingExtra("sentry-sdk", "sentry") from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sentry_sdk import Scope

    from rowlock.app import Rowlock
    from rowlock.flow.enqueue.middleware import EnqueueCall
    from rowlock.flow.progress.context import Context
    from rowlock.model.job import Job
    from rowlock.model.outcome import Outcome
    from rowlock.telemetry import AttemptEvent

_HEADERS: Final = ("sentry-trace", "baggage")
_OP: Final = "queue.process"


def report_failures(app: Rowlock, *, retries: bool = False) -> None:
    """Report jobs that fail for good to Sentry, from every process that runs them. Call it once, after sentry_sdk.init.

    retries: report attempts that are followed by another one, too, as warnings.
    """
    app.extend_once("rowlock.contrib.sentry.report_failures")
    # Its records about failures would become events of their own.
    ignore_logger("rowlock.job")
    reports = _Reports(retries=retries)

    # Registered as functions: middleware is told apart by what kind of function it is.
    @app.enqueue_middleware
    def trace_enqueue(call: EnqueueCall) -> None:
        call.add_trace(_headers())

    @app.middleware
    async def report_run(ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
        return await reports.run(ctx, call)

    app.listen(JobFinished, JobRetried, JobDied)(reports.ended)
    app.listen(JobRescued)(reports.rescued)


def _headers() -> dict[str, str]:
    """The trace that this enqueue belongs to; empty while Sentry is not set up."""
    if not sentry_sdk.is_initialized():
        return {}
    found = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
    return {name: value for name, value in found.items() if value}


class _Reports:
    """Makes the events of one application."""

    def __init__(self, *, retries: bool) -> None:
        self._retries = retries

    async def run(self, ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
        """Run the handler in a scope of its own, which belongs to the trace of its enqueue."""
        job = ctx.job
        headers = trace_context.headers(job.meta)
        with sentry_sdk.isolation_scope() as scope:
            _describe(scope, job)
            transaction = sentry_sdk.continue_trace(
                {name: headers[name] for name in _HEADERS if name in headers}, op=_OP, name=job.kind, source="task"
            )
            with sentry_sdk.start_transaction(transaction):
                try:
                    return await call()
                except BaseException as error:
                    self._raised(error, ctx.outcome_of(error), transaction)
                    raise

    def _raised(self, error: BaseException, outcome: Outcome, transaction: Any) -> None:  # noqa: ANN401 - Sentry's, or a stand-in
        if not isinstance(outcome, Failed | Retried):
            return  # a snooze, a cancel, a shutdown
        transaction.set_status("internal_error")
        if isinstance(outcome, Retried) and not self._retries:
            return
        if isinstance(error, asyncio.CancelledError):
            # Told to stop by its timeout: where it stood is the cause.
            late = TimeoutError(str(outcome.error.get("message")))
            late.__cause__ = error
            error = late
        sentry_sdk.capture_exception(error, level="warning" if isinstance(outcome, Retried) else "error")

    def ended(self, event: AttemptEvent) -> None:
        """Report what no handler raised: a child process that died or was killed."""
        error: Mapping[str, Any] | None = getattr(event, "error", None)
        final = isinstance(event, JobFinished)
        if error is None or _was_raised(error) or not (final or self._retries):
            return
        if isinstance(event, JobFinished) and event.state != "failed":
            return
        about = {"kind": event.kind, "attempt": event.attempt, "lane": event.lane}
        _say(event.job_id, about, str(error.get("message") or error.get("reason")), "error" if final else "warning")

    def rescued(self, event: JobRescued) -> None:
        """Report a job that was lost with its workers as often as it may be."""
        if event.state == "failed":
            _say(event.job_id, {"kind": event.kind}, "its worker was lost", "error")


def _was_raised(error: Mapping[str, Any]) -> bool:
    """Whether a handler raised it, in this process or in a child, where run() has reported it.

    An error that the worker made up itself, such as the timeout of a child that did not stop, has no frames.
    """
    return 'File "' in str(error.get("traceback") or "")


def _describe(scope: Scope, job: Job) -> None:
    """Every event and transaction of the run names the job; events of one kind with one error are one issue."""
    about = {"kind": job.kind, "attempt": job.attempt, "lane": job.lane, "max_attempts": job.max_attempts}
    _tag(scope, job.id, about)
    scope.set_transaction_name(job.kind, source="task")
    row = CURRENT.get()
    secrets = redact.secrets_in(row["args"]) if row is not None else frozenset()
    if secrets:
        scope.add_event_processor(lambda event, _hint: _scrubbed(event, secrets))


def _tag(scope: Scope, number: int, about: Mapping[str, object]) -> None:
    public_id = ids.encode(number)
    scope.set_tag("rowlock.kind", about["kind"])
    scope.set_tag("rowlock.job_id", public_id)
    if about.get("lane"):
        scope.set_tag("rowlock.lane", about["lane"])
    scope.set_context("rowlock job", {"id": public_id, "number": number, **about})
    scope.fingerprint = ["{{ default }}", str(about["kind"])]


def _say(number: int, about: Mapping[str, object], text: str, level: str) -> None:
    with sentry_sdk.isolation_scope() as scope:
        _tag(scope, number, about)
        scope.fingerprint = ["rowlock", str(about["kind"]), text.rstrip("0123456789 ")]
        sentry_sdk.capture_message(f"{about['kind']}: {text}", level=level)  # type: ignore[arg-type]  # one of its levels


def _scrubbed(value: Any, secrets: frozenset[str]) -> Any:  # noqa: ANN401 - any part of an event
    """The event without the secret arguments of the job, in local variables and messages too."""
    if isinstance(value, str):
        return redact.scrub(value, secrets)
    if isinstance(value, dict):
        return {key: _scrubbed(inner, secrets) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrubbed(inner, secrets) for inner in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = repr(value)
    return value if redact.scrub(text, secrets) == text else redact.MASK
