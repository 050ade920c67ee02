"""WorkerHealth: the answer to a probe of a worker process: does it live, is it ready, has it finished draining."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

HUNG_AFTER: Final = timedelta(seconds=60)
"""Where ROWLOCK_BLOCKED_LIMIT is off, a process counts as hung after this time."""


class WorkerPhase(StrEnum):
    """Where a worker process stands between its start and its end."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """A worker process at one moment."""

    phase: WorkerPhase
    running_jobs: int | None = None
    """Jobs that run here or whose outcome is not written yet; None: not known to the process that answers."""
    hung: str | None = None
    """Why the process should be killed; None: it lives. A database that is away is no reason."""
    not_ready: str | None = None
    """Why the process would not run a job that is enqueued now; None: it would."""

    @property
    def live(self) -> bool:
        """Whether the process should be left alone."""
        return self.hung is None

    @property
    def ready(self) -> bool:
        """Whether the process is at work."""
        return self.live and self.not_ready is None

    @property
    def drained(self) -> bool:
        """Whether every job has ended or gone back to the queue, and the process is about to leave."""
        return self.phase is WorkerPhase.DRAINED

    @property
    def reason(self) -> str | None:
        """Why it does not live or is not ready."""
        return self.hung or self.not_ready


@dataclass(slots=True)
class SignsOfLife:
    """What the heartbeat's thread notes for probes, in seconds of its monotonic clock. Other threads only read it."""

    ticked_at: float | None = None
    """When the watchdog last looked at the event loop; None: it has not begun."""
    blocked_for: float = 0.0
    """Seconds since the event loop last answered the watchdog."""
    answered_at: float | None = None
    """When the database last answered a heartbeat; None: never."""

    def hung(self, now: float, limit: timedelta) -> str | None:
        """Why the process counts as hung. limit: how long its loop or the heartbeat's thread may stand still."""
        seconds = limit.total_seconds()
        if self.blocked_for > seconds:
            return f"the event loop has been blocked for {self.blocked_for:.0f} s"
        if self.ticked_at is not None and now - self.ticked_at > seconds:
            return f"the thread of the heartbeat has stood still for {now - self.ticked_at:.0f} s"
        return None

    def unanswered(self, now: float, limit: float) -> str | None:
        """Why the worker is out of touch with its database. limit: seconds that a beat may be without an answer."""
        if self.answered_at is None:
            return "it has not begun: it waits for the database or for its schema, as its log says"
        silent = now - self.answered_at
        return f"the database has not answered a heartbeat for {silent:.0f} s" if silent > limit else None
