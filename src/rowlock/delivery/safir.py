"""SafirDelivery: the ArqQueue of Safir (or its MockArqQueue) sends the messages; arq workers run the jobs."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from rowlock.delivery.backend import REDELIVER_AFTER, TASK, Delivery
from rowlock.errors import ConfigurationError
from rowlock.model.keys import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.model.options import Span


class SafirQueue(Protocol):
    """What Safir's ArqQueue and MockArqQueue have in common."""

    async def enqueue(self, task_name: str, *task_args: Any, _queue_name: str | None = None, **task_kwargs: Any) -> Any:  # noqa: ANN401 - Safir's
        """Add a job; returns its metadata, with the id."""

    async def get_job_metadata(self, job_id: str, queue_name: str | None = None) -> Any:  # noqa: ANN401 - Safir's
        """Metadata of a job; raises JobNotFound."""

    async def get_job_result(self, job_id: str, queue_name: str | None = None) -> Any:  # noqa: ANN401 - Safir's
        """Result of a job; raises JobNotFound or JobResultUnavailable."""


class SafirDelivery(Delivery):
    """Sends job ids through Safir's queue. The arq worker has the function that function() returns."""

    def __init__(
        self,
        queue: SafirQueue,
        *,
        queues: Mapping[str, str] | None = None,
        name: str = "safir",
        redeliver_after: Span = REDELIVER_AFTER,
    ) -> None:
        """queues: arq's queue by lane; lanes that are not named use the default queue of `queue`."""
        super().__init__(name=name, redeliver_after=redeliver_after)
        if not all(callable(getattr(queue, each, None)) for each in ("enqueue", "get_job_metadata", "get_job_result")):
            raise ConfigurationError(f"SafirDelivery takes an ArqQueue or MockArqQueue of Safir; got {shown(queue)}.")
        self._queue, self._queues = queue, dict(queues or {})

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Send one message; returns arq's id of it."""
        sent = await self._queue.enqueue(TASK, payload["job_id"], _queue_name=self._queues.get(queue_name))
        return None if sent is None else str(sent.id)

    @override
    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """Safir's metadata of a message; None: there is none."""
        return await self._found(self._queue.get_job_metadata, backend_job_id)

    @override
    async def get_job_result(self, backend_job_id: str) -> object | None:
        """The result that arq keeps; None: it keeps none."""
        found = await self._found(self._queue.get_job_result, backend_job_id)
        return None if found is None or not found.get("success", True) else found.get("result")

    async def _found(self, ask: Any, backend_job_id: str) -> dict[str, Any] | None:  # noqa: ANN401 - a method of Safir's
        for queue in (None, *dict.fromkeys(self._queues.values())):
            try:
                found = await ask(backend_job_id, queue_name=queue)
            except Exception as error:
                if type(error).__name__ not in ("JobNotFound", "JobResultUnavailable"):
                    raise
                continue
            return asdict(found) if is_dataclass(found) and not isinstance(found, type) else dict(vars(found))
        return None
