"""Tell: one log line and, for listeners, one event per step of a job in this process."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from rowlock.flow.finish.finisher import Ended, Returned
from rowlock.model.duration import humanise
from rowlock.telemetry import (
    AttemptEvent,
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
    about,
)

if TYPE_CHECKING:
    from rowlock.flow.finish.finisher import Finished, Flushed
    from rowlock.flow.run.attempt import Attempt
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
_REMEMBERED: Final = 1000
"""Problems that are not told again."""


class Teller:
    """Speaks for the crew; costs a look at two flags when nobody listens."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._unreadable: set[tuple[str, object]] = set()
        """Kinds and why their arguments could not be read, as far as it was told."""

    @property
    def speaks(self) -> bool:
        """Whether anybody would hear of ordinary steps."""
        return self._events.active or logger.isEnabledFor(logging.INFO)

    def started(self, row: Row) -> None:
        """A job was claimed and its handler is about to be called."""
        if self._events.active:
            where = _where(row)
            self._events.emit(JobClaimed(*where, waited=row["claimed_at"] - row["run_after"]))
            self._events.emit(JobStarted(*where))
        if logger.isEnabledFor(logging.INFO):
            logger.info("→ start   %s %s  attempt %d", row["kind"], row["id"], row["attempt"], extra=about(row))

    def given_back(self, row: Row) -> None:
        """A job was claimed, but this worker is to start none any more."""
        logger.info("↻ back    %s %s  claimed while the worker stops", row["kind"], row["id"], extra=about(row))

    def lost(self, attempt: Attempt) -> None:
        """The claim of a running attempt is gone."""
        row = attempt.row
        logger.warning(
            "! lost    %s %s  its claim is gone; the handler is told", row["kind"], row["id"], extra=about(row)
        )

    def stuck(self, attempt: Attempt, patience: float) -> None:
        """A handler does not end."""
        row = attempt.row
        logger.warning(
            "! stuck   %s %s  was told to stop (%s) %.0f s ago and does not; its slot is held until it ends",
            row["kind"],
            row["id"],
            attempt.reason,
            patience,
            extra=about(row),
        )

    def puzzled(self, attempt: Attempt, outcome: Unreadable) -> None:
        """Arguments cannot be read: told once per kind and cause, as a deploy may leave thousands of such jobs."""
        row, problem = attempt.row, (attempt.handler.name, outcome.error["cause"])
        if problem not in self._unreadable and len(self._unreadable) < _REMEMBERED:
            self._unreadable.add(problem)
            logger.warning(
                "? unread  %s %s  this worker's code cannot read its arguments; it and others like it wait for one "
                "that can. %s",
                row["kind"],
                row["id"],
                outcome.error["message"],
                extra=about(row),
            )

    def ended(self, attempt: Attempt, write: Ended | Returned | None, seconds: float) -> AttemptEvent | None:
        """An attempt ended. Returns what listeners are to hear once its write is acknowledged."""
        row = attempt.row
        if logger.isEnabledFor(logging.INFO):
            sign, how = _line(write)
            logger.info("%s %s %s  %s", sign, row["kind"], row["id"], how % seconds, extra=about(row))
        return _event(row, write, seconds) if self._events.active else None

    def flushed(self, flushed: Flushed) -> None:
        """Outcomes were acknowledged, or refused."""
        for finished in flushed.lost:
            logger.warning(
                "! refused the outcome of job %d: its claim (fence %d) is gone",
                *finished.claim,
                extra={"job_id": finished.claim.job_id, "fence": finished.claim.fence, "lane": finished.lane},
            )
        if self._events.active:
            for finished in flushed.accepted:
                self.heard(finished.event)
            for finished in flushed.lost:
                self.heard(_refused(finished))

    def heard(self, event: AttemptEvent | None) -> None:
        """Tell listeners now."""
        if event is not None:
            self._events.emit(event)


def _where(row: Row) -> tuple[int, str, str, int, int]:
    return row["id"], row["kind"], row["lane"], row["attempt"], row["fence"]


def _line(write: Ended | Returned | None) -> tuple[str, str]:
    """The sign, and the rest with a place for the seconds it took."""
    if write is None:
        return "! lost   ", "ended after %.3f s without its claim; nothing of it is kept"
    why = _why(write.error).replace("%", "%%")
    if isinstance(write, Ended):
        return _SIGNS[write.state], f"{write.state} after %.3f s{why}"
    if write.signal is not None:
        until = f"until the signal {write.signal!r}".replace("%", "%%")
        return _AGAIN[write.outcome], f"gives its slot back after %.3f s, {until}"
    then = f"again in {humanise(write.delay)}" if write.state == "queued" else "held for a person"
    return _AGAIN[write.outcome], f"{write.outcome} after %.3f s, {then}{why}"


def _why(error: str | None) -> str:
    """Class and message of what a handler raised, secrets already removed; the first line of it."""
    told = json.loads(error) if error else {}
    if "type" not in told:
        return ""
    return f": {told['type']}: {told['message']}".partition("\n")[0]


def _event(row: Row, write: Ended | Returned | None, seconds: float) -> AttemptEvent:  # noqa: PLR0911 - one per outcome
    where = _where(row)
    if write is None:
        return JobLost(*where, seconds)
    error = json.loads(write.error) if write.error else None
    if isinstance(write, Ended):
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


def _refused(finished: Finished) -> AttemptEvent | None:
    event = finished.event
    if event is None:
        return None
    where = (event.job_id, event.kind, event.lane, event.attempt, event.fence)
    return JobLost(*where, getattr(event, "seconds", 0.0))
