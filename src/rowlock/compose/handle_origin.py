"""Origin: what the handles and steps of one task share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rowlock.flow.kinds.codec import open_codec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.bridge import Bridge
    from rowlock.flow.kinds.codec import Codec
    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.job import Job
    from rowlock.model.workflow import WorkflowView


class WaitsForJobs(Protocol):
    """The part of the jobs desk that handles need."""

    async def get(self, job_id: int | str) -> Job:
        """Read one job."""

    async def wait(self, job_id: int | str, *, timeout: float | None = None) -> Job:
        """Wait until a job is final."""

    async def result(self, job_id: int) -> str | None:
        """The stored result, encoded and with its secrets."""


class WaitsForWorkflows(Protocol):
    """The part of the workflows desk that handles need."""

    async def get(self, workflow_id: int | str) -> WorkflowView:
        """Read one workflow."""

    async def wait(self, workflow_id: int | str, *, timeout: float | None = None) -> WorkflowView:
        """Wait until a workflow is final."""

    async def results(self, workflow_id: int | str, steps: Sequence[str]) -> Mapping[str, str | None]:
        """The stored results of steps by name, encoded and with their secrets."""


class Desks(Protocol):
    """The parts of the desk that handles need, each set up when it is first asked for."""

    @property
    def jobs(self) -> WaitsForJobs:
        """Jobs."""

    @property
    def workflows(self) -> WaitsForWorkflows:
        """Workflows."""


@dataclass(frozen=True)
class Origin:
    """What the handles and steps of one task share; a bulk makes a million of those."""

    handler: Handler
    desk: Desks
    bridge: Bridge

    @cached_property
    def open(self) -> Codec:
        """Encodes arguments of which others follow later."""
        return open_codec(self.handler.codec)

    @cached_property
    def returns(self) -> object:
        """What the handler leaves behind, as annotated."""
        from rowlock.compose import result_types  # noqa: PLC0415 - only steps are judged by it

        return result_types.result_of(self.handler.codec.signature.returns)
