"""BaseContext: the names that the contexts of jobs and of items have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.flow.progress.attempt_io import AttemptIO
    from rowlock.model.job import Claim, Job
    from rowlock.telemetry import JobLog


class BaseContext:
    """A handler's view of its attempt. Everything that is not for handlers is behind `_io`."""

    __slots__ = ("_io",)

    def __init__(self, io: AttemptIO) -> None:
        self._io = io

    @property
    def job(self) -> Job:
        """The job as it was claimed; its args include the handler's defaults."""
        return self._io.job

    @property
    def claim(self) -> Claim:
        """The claim (job id and fence) that every write of this attempt carries."""
        return self._io.claim

    @property
    def deadline(self) -> float | None:
        """time.monotonic() at which the timeout strikes; None: no timeout."""
        return self._io.deadline

    @property
    def log(self) -> JobLog:
        """A logger whose records carry the job and are stored with it, however logging is configured."""
        return self._io.log

    @property
    def state(self) -> Mapping[str, Any]:
        """What the worker's lifespans yielded."""
        return self._io.state

    @property
    def cancelled(self) -> bool:
        """Whether the worker is shutting down or this attempt was asked to stop."""
        return self._io.cancelled


def io_of(context: BaseContext) -> AttemptIO:
    """The internals of a context, for the worker's own code."""
    return context._io  # noqa: SLF001 - this is the one door to them
