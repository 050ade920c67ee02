"""Task services: the handler, the desk and the bridge that the handles and steps of one task share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rowlock.flow.kinds import codec as kinds_codec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.bridge import Bridge
    from rowlock.flow.kinds.codec import Codec
    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.job import Job
    from rowlock.model.workflow import WorkflowView


class JobLookup(Protocol):
    """The part of the jobs desk that handles need."""

    async def get(self, job_id: int | str) -> Job:
        """Read one job."""

    async def wait(self, job_id: int | str, *, timeout: float | None = None) -> Job:
        """Wait until a job is final."""

    async def result(self, job_id: int) -> str | None:
        """The stored result, encoded and with its secrets."""


class WorkflowLookup(Protocol):
    """The part of the workflows desk that handles need."""

    async def get(self, workflow_id: int | str) -> WorkflowView:
        """Read one workflow."""

    async def wait(self, workflow_id: int | str, *, timeout: float | None = None) -> WorkflowView:
        """Wait until a workflow is final."""

    async def results(self, workflow_id: int | str, steps: Sequence[str]) -> Mapping[str, str | None]:
        """The stored results of steps by name, encoded and with their secrets."""


class DeskLookup(Protocol):
    """The parts of the desk that handles need; each is set up at its first use."""

    @property
    def jobs(self) -> JobLookup:
        """Jobs."""

    @property
    def workflows(self) -> WorkflowLookup:
        """Workflows."""


@dataclass(frozen=True)
class TaskServices:
    """One per task; each of its handles and steps refers to it, and a bulk makes a million handles."""

    handler: Handler
    desk: DeskLookup
    bridge: Bridge

    @cached_property
    def open_codec(self) -> Codec:
        """Encodes a part of the arguments; the others follow later, as results of other steps."""
        return kinds_codec.open_codec(self.handler.codec)

    @cached_property
    def returns(self) -> object:
        """The annotation of the handler's result."""
        from rowlock.compose import result_types  # noqa: PLC0415 - only steps need it

        return result_types.result_of(self.handler.codec.signature.returns)
