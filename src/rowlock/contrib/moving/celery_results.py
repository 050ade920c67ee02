"""Handles of jobs in Celery's words: AsyncResult, and GroupResult."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from rowlock.errors import JobFailed
from rowlock.model.state import FINAL, SUCCESS, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowlock.app import Rowlock
    from rowlock.compose.workflow_handle import Started
    from rowlock.model.job import Job
    from rowlock.tasks import Enqueued

_STATES: Final = {
    State.PENDING: "PENDING",
    State.BLOCKED: "PENDING",
    State.QUEUED: "PENDING",
    State.RUNNING: "STARTED",
    State.COMPLETED: "SUCCESS",
    State.COMPLETED_WITH_ERRORS: "SUCCESS",
    State.FAILED: "FAILURE",
    State.CANCELLED: "REVOKED",
    State.EXPIRED: "REVOKED",
}


class AsyncResult:
    """A job that was sent. Unlike Celery's, it needs no result backend, and an unknown id raises JobNotFound."""

    def __init__(self, job_id: str, rowlock: Rowlock, workflow: Started[Any] | None = None) -> None:
        """workflow: the chain or chord whose last job this is."""
        self.id = self.task_id = job_id
        self._rowlock, self._workflow = rowlock, workflow

    @override
    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    @override
    def __hash__(self) -> int:
        return hash(self.id)

    def job(self) -> Job:
        """The job as it stands now."""
        return self._rowlock.sync.jobs.get(self.id)

    def _handle(self) -> Enqueued[Any]:
        return self._rowlock.task(self.job().kind).handle(self.id)

    def get(self, timeout: float | None = None, *, propagate: bool = True) -> Any:
        """Wait for the result. JobFailed if the job did not complete; propagate=False: returns the error instead."""
        try:
            if self._workflow is not None:
                self._workflow.wait_sync(timeout)
            return self._handle().wait_sync(timeout)
        except JobFailed as error:
            if propagate:
                raise
            return error

    wait = get

    @property
    def state(self) -> str:
        """PENDING, STARTED, RETRY, SUCCESS, FAILURE or REVOKED."""
        job = self.job()
        return "RETRY" if job.state is State.QUEUED and job.attempt > 0 else _STATES[job.state]

    status = state

    @property
    def result(self) -> Any:
        """The result, or the error of a job that failed; None while there is neither."""
        return self.get(propagate=False) if self.ready() else None

    info = result

    @property
    def traceback(self) -> str | None:
        """The traceback of a job that failed."""
        text = (self.job().errors or {}).get("traceback")
        return None if text is None else str(text)

    def ready(self) -> bool:
        """Whether the job has ended."""
        return self.job().state in FINAL

    def successful(self) -> bool:
        """Whether the job completed, with errors or without."""
        return self.job().state in SUCCESS

    def failed(self) -> bool:
        """Whether the job failed for good."""
        return self.job().state is State.FAILED

    def revoke(self, *, terminate: bool = False, **_signal: object) -> None:
        """Cancel the job. terminate: stop it if it runs, without waiting for its next await."""
        (self._rowlock.sync.jobs.stop if terminate else self._rowlock.sync.jobs.cancel)(self.id)

    def forget(self) -> None:
        """Do nothing: retention removes the job with its result."""


class GroupResult:
    """The jobs of a group, in the order of its signatures."""

    def __init__(self, results: Sequence[AsyncResult], workflow: Started[Any]) -> None:
        self.results, self.id, self._workflow = list(results), workflow.public_id, workflow

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[AsyncResult]:
        return iter(self.results)

    def __getitem__(self, index: int) -> AsyncResult:
        return self.results[index]

    def get(self, timeout: float | None = None, *, propagate: bool = True) -> list[Any]:
        """Wait for all results, in order. WorkflowFailed names the job that failed; propagate=False: errors stay."""
        try:
            self._workflow.wait_sync(timeout)
        except JobFailed:
            if propagate:
                raise
        return [each.get(timeout, propagate=propagate) for each in self.results]

    join = get

    def ready(self) -> bool:
        """Whether all have ended."""
        return all(each.ready() for each in self.results)

    def successful(self) -> bool:
        """Whether all completed."""
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        """Whether one failed for good."""
        return any(each.failed() for each in self.results)

    def completed_count(self) -> int:
        """How many completed."""
        return sum(each.successful() for each in self.results)

    def revoke(self, *, terminate: bool = False) -> None:
        """Cancel all that have not ended."""
        for each in self.results:
            if not each.ready():
                each.revoke(terminate=terminate)
