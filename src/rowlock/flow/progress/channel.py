"""AttemptChannel: how an attempt reaches its worker's database, directly or from a child process through its pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rowlock.flow.enqueue.producer import Producer
    from rowlock.flow.enqueue.workflow_additions import WorkflowAddition
    from rowlock.flow.enqueue.workflow_insert import WorkflowReceipt
    from rowlock.flow.locks.lock import LockBackend
    from rowlock.flow.progress.report import ProgressReport
    from rowlock.model.job import Claim
    from rowlock.store.queries import Statements


class AttemptChannel(Protocol):
    """Implemented by the worker's Reporter, by the pipe of a child process and by the stubs of the test kit."""

    @property
    def statements(self) -> Statements:
        """The named SQL statements, for those that run in the user's own transaction."""

    def note(self, report: ProgressReport) -> None:
        """Mark this report as changed; it is written soon."""

    async def save(self, report: ProgressReport) -> None:
        """Write this report now and wait until it is committed."""

    async def flush(self) -> None:
        """Write every report that has changed."""

    async def load_checkpoint(self, claim: Claim) -> str | None:
        """The checkpoint as JSON text; None: nothing was saved."""

    async def load_cursors(self, claim: Claim) -> dict[str, int]:
        """By the name of a ctx.resume() loop: how many of its elements earlier attempts have done."""

    async def keep_items(self, report: ProgressReport, phase: str, *, resume: bool) -> list[str]:
        """The names of the items that earlier attempts finished and this attempt may leave out."""

    async def read_signal(self, claim: Claim, name: str) -> str | None:
        """The signal as JSON text {payload, timed_out}; None: not sent yet. ClaimLost without the claim."""

    async def step_name(self, claim: Claim) -> str | None:
        """The name of the job's workflow step; None: the job is in no workflow."""

    async def add_steps(self, producer: Producer | None, addition: WorkflowAddition) -> WorkflowReceipt:
        """Add steps to the job's workflow. producer: the one that prepared them; None: a child process did."""

    @property
    def locks(self) -> LockBackend:
        """Where locks are acquired and released, on the running loop."""
