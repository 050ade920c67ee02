"""InlineDelivery: jobs run in the process that enqueues them, right after the commit; for tests and small programs."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rowlock.delivery.backend import REDELIVER_AFTER, Delivery
from rowlock.delivery.reception import result_of
from rowlock.errors import ConfigurationError, RowlockError

if TYPE_CHECKING:
    from rowlock.delivery.reception import Reception
    from rowlock.model.options import Span

logger = logging.getLogger("rowlock.delivery")


class InlineDelivery(Delivery):
    """Runs each job as a task of the event loop that its message was sent from. Nothing outlives the process."""

    def __init__(self, *, name: str = "inline", redeliver_after: Span = REDELIVER_AFTER) -> None:
        super().__init__(name=name, redeliver_after=redeliver_after)
        self._reception: Reception | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._results: dict[str, object] = {}

    @override
    def bind(self, reception: Reception) -> None:
        """Remember whose jobs to run."""
        self._reception = reception

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Begin to run the job."""
        if self._reception is None:
            raise ConfigurationError("This InlineDelivery belongs to no application; pass it to Rowlock(delivery=…).")
        number = secrets.token_hex(16)
        task = self._tasks[number] = asyncio.create_task(self._run(number, payload["job_id"]))
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        return number

    async def _run(self, number: str, job_id: str) -> None:
        try:
            result = result_of(await self._reception.run(job_id))  # type: ignore[union-attr]  # bound
        except RowlockError as error:
            logger.warning("job %s was not run: %s", job_id, error)
            return
        self._results[number] = result

    @override
    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """Whether the task still runs; None: it does not, and left no result."""
        if backend_job_id in self._tasks:
            return {"status": "in_progress"}
        return {"status": "complete"} if backend_job_id in self._results else None

    @override
    async def get_job_result(self, backend_job_id: str) -> object | None:
        """The result of the job, once it has completed."""
        return self._results.get(backend_job_id)

    async def idle(self) -> None:
        """Wait until no job runs on this event loop, those included that running jobs have enqueued here."""
        while here := [task for task in self._tasks.values() if task.get_loop() is asyncio.get_running_loop()]:
            await asyncio.wait(here)

    @override
    async def close(self) -> None:
        """Wait for the tasks of this loop, whose jobs the application has ended before."""
        await self.idle()
