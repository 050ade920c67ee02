"""JobLogLines: one log line and, for listeners, one telemetry event per step of a job in this process."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from rowlock.flow.finish.finisher import FinalWrite, RequeueWrite
from rowlock.model import ids, trace_context
from rowlock.model.state import State
from rowlock.model.times.duration import humanise
from rowlock.telemetry import (
    AttemptEvent,
    BatchClaimed,
    BatchFlushed,
    Events,
    JobClaimed,
    JobDied,
    JobFinished,
    JobInterrupted,
    JobLost,
    JobRetried,
    JobSnoozed,
    JobStarted,
    JobSuspended,
    JobUnreadable,
    id_fields,
    job_fields,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.flow.finish.finisher import FlushResult, PendingWrite
    from rowlock.flow.run.attempt import RunningAttempt
    from rowlock.model.outcome import Unreadable
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.job")
_SIGNS: Final = {
    "completed": "← done   ",
    "completed_with_errors": "← partly ",
    "cancelled": "⊘ ended  ",
    "failed": "! failed ",
}
_AGAIN: Final = {
    "failed": "↻ retry  ",
    "snoozed": "↻ snooze ",
    "waiting": "‖ waits  ",
    "limited": "↻ limited",
    "interrupted": "↻ back   ",
    "unreadable": "? unread ",
    "died": "! died   ",
}
_FAILED: Final = frozenset({"failed", "died"})
"""Outcomes of attempts that failed."""
_REMEMBERED: Final = 1000
"""Problems with arguments that are logged once only, up to that many."""


class JobLogLines:
    """Logs and emits for the slots; reads two flags when neither is wanted."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._unreadable: set[tuple[str, object]] = set()
        """Kinds and causes of unreadable arguments that were logged."""

    def claimed(self, attempts: Sequence[RunningAttempt], seconds: float) -> None:
        """Emit one claim as a whole; its jobs follow one by one when they are started."""
        if self._events.active:
            self._events.emit(BatchClaimed([_claimed(attempt.row) for attempt in attempts], seconds))

    @property
    def wanted(self) -> bool:
        """Whether ordinary steps are logged or listened to."""
        return self._events.active or logger.isEnabledFor(logging.INFO)

    def started(self, row: Row) -> None:
        """Log a claimed job whose handler is about to be called."""
        if self._events.active:
            self._events.emit(_claimed(row))
            self._events.emit(JobStarted(*_where(row)))
        if logger.isEnabledFor(logging.INFO):
            _log(logging.INFO, "→ start  ", row, "attempt %d", row["attempt"], state="running")

    def given_back(self, row: Row) -> None:
        """Log a claimed job that is not started, as the worker stops."""
        _log(logging.INFO, "↻ back   ", row, "claimed while the worker stops")

    def lost(self, attempt: RunningAttempt) -> None:
        """Log that the claim of a running attempt is gone."""
        _log(logging.WARNING, "! lost   ", attempt.row, "its claim is gone; the handler is told")

    def stuck(self, attempt: RunningAttempt, patience: float) -> None:
        """Log a handler that does not end."""
        text = "was told to stop (%s) %.0f s ago and does not; its slot is held until it ends"
        _log(logging.WARNING, "! stuck  ", attempt.row, text, attempt.reason, patience)

    def unreadable(self, attempt: RunningAttempt, outcome: Unreadable) -> None:
        """Log arguments that cannot be read, once per kind and cause: a deploy may leave thousands of such jobs."""
        problem = (attempt.handler.name, outcome.error["cause"])
        if problem not in self._unreadable and len(self._unreadable) < _REMEMBERED:
            self._unreadable.add(problem)
            text = "this worker's code cannot read its arguments; it and others like it wait for one that can. %s"
            _log(logging.WARNING, "? unread ", attempt.row, text, outcome.error["message"])

    def ended(
        self, attempt: RunningAttempt, write: FinalWrite | RequeueWrite | None, seconds: float
    ) -> AttemptEvent | None:
        """Log the end of an attempt; returns the event to emit once its write is acknowledged."""
        row, level = attempt.row, _level(write)
        if logger.isEnabledFor(level):
            sign, how = _line(write)
            fields = {"seconds": round(seconds, 6), "outcome": "lost"} if write is None else _ending(write, seconds)
            _log(level, sign, row, how, seconds, **fields)
        return _event(row, write, seconds) if self._events.active else None

    def flushed(self, flushed: FlushResult) -> None:
        """Log refused outcomes and emit the events of a flush."""
        for write in flushed.refused:
            logger.warning(
                "! refused the outcome of job %s: its claim (fence %d) is gone",
                ids.encode(write.claim.job_id),
                write.claim.fence,
                extra={**id_fields(write.claim.job_id), "fence": write.claim.fence, "lane": write.lane},
            )
        if self._events.active:
            events = [write.event for write in flushed.accepted] + [_refused(write) for write in flushed.refused]
            jobs = [event for event in events if event is not None]
            if jobs:
                self._events.emit(BatchFlushed(jobs, flushed.seconds))
            for event in jobs:
                self._events.emit(event)

    def emit(self, event: AttemptEvent | None) -> None:
        """Emit an event, if there is one."""
        if event is not None:
            self._events.emit(event)


def _log(level: int, sign: str, row: Row, text: str, *values: object, trace: str | None = None, **more: object) -> None:
    """One record. trace: the traceback, printed below the line as that of an exception would be."""
    fields = {**job_fields(row), **more}
    words = (sign, fields["kind"], fields["job_id"], text % values)
    record = logger.makeRecord(logger.name, level, __file__, 0, "%s %s %s  %s", words, None, extra=fields)
    # Not exc_info: the exception may be of a child process, and this text is without its secrets.
    record.exc_text = trace
    logger.handle(record)


def _where(row: Row) -> tuple[int, str, str, int, int]:
    return row["id"], row["kind"], row["lane"], row["attempt"], row["fence"]


def _claimed(row: Row) -> JobClaimed:
    waited = row["claimed_at"] - row["run_after"]
    return JobClaimed(*_where(row), waited=waited, trace=trace_context.stored_headers(row["meta"]))


def _level(write: FinalWrite | RequeueWrite | None) -> int:
    """ERROR: the job has failed for good. WARNING: an attempt has failed and another one, or a person, follows."""
    if isinstance(write, FinalWrite):
        return logging.ERROR if write.state == State.FAILED else logging.INFO
    return logging.WARNING if write is not None and write.outcome in _FAILED else logging.INFO


def _ending(write: FinalWrite | RequeueWrite, seconds: float) -> dict[str, Any]:
    """The fields of the record about an end, and its traceback."""
    error = json.loads(write.error) if write.error else None
    fields: dict[str, Any] = {"state": str(write.state), "seconds": round(seconds, 6)}
    fields["outcome"] = str(write.state) if isinstance(write, FinalWrite) else write.outcome
    if error is not None:
        fields["error"] = {key: error[key] for key in ("reason", "type", "message", "errors") if error.get(key)}
        fields["trace"] = str(error["traceback"]).rstrip() if error.get("traceback") else None
    if isinstance(write, RequeueWrite) and write.delay:
        fields["retry_in"] = round(write.delay.total_seconds(), 6)
    return fields


def _line(write: FinalWrite | RequeueWrite | None) -> tuple[str, str]:
    """The sign, and the rest of the line with a place for the seconds."""
    if write is None:
        return "! lost   ", "ended after %.3f s without its claim; nothing of it is kept"
    why = _why(write.error).replace("%", "%%")
    if isinstance(write, FinalWrite):
        return _SIGNS[write.state], f"{write.state} after %.3f s{why}"
    if write.signal is not None:
        until = f"until the signal {write.signal!r}".replace("%", "%%")
        return _AGAIN[write.outcome], f"gives its slot back after %.3f s, {until}"
    then = f"again in {humanise(write.delay)}" if write.state == "queued" else "held for a person"
    return _AGAIN[write.outcome], f"{write.outcome} after %.3f s, {then}{why}"


def _why(error: str | None) -> str:
    """Class and message of the error that a handler raised, first line only; secrets are removed already."""
    raised = json.loads(error) if error else {}
    if "type" not in raised:
        return ""
    return f": {raised['type']}: {raised['message']}".partition("\n")[0]


def _event(row: Row, write: FinalWrite | RequeueWrite | None, seconds: float) -> AttemptEvent:  # noqa: PLR0911 - one per outcome
    where = _where(row)
    if write is None:
        return JobLost(*where, seconds)
    error = json.loads(write.error) if write.error else None
    if isinstance(write, FinalWrite):
        return JobFinished(*where, write.state, seconds, error)
    match write.outcome:
        case "failed":
            return JobRetried(*where, seconds, write.delay, error)
        case "snoozed" | "limited":
            return JobSnoozed(*where, seconds, write.delay)
        case "waiting":
            return JobSuspended(*where, seconds, write.signal or "")
        case "unreadable":
            return JobUnreadable(*where, seconds, error)
        case "died":
            return JobDied(*where, seconds, error)
        case _:
            return JobInterrupted(*where, seconds)


def _refused(write: PendingWrite) -> AttemptEvent | None:
    event = write.event
    if event is None:
        return None
    where = (event.job_id, event.kind, event.lane, event.attempt, event.fence)
    return JobLost(*where, getattr(event, "seconds", 0.0))
