"""SafirDelivery: the ArqQueue of Safir (or its MockArqQueue) sends the messages; arq workers run the jobs."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from rowlock.delivery.arq import worker_settings_of
from rowlock.delivery.backend import REDELIVER_AFTER, TASK, Delivery
from rowlock.errors import ConfigurationError
from rowlock.model.keys import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rowlock.delivery.reception import Reception
    from rowlock.model.options import Span

_AT_ONCE: Final = 16
"""Questions to the queue at the same time; each is several of Redis."""


class SafirQueue(Protocol):
    """What Safir's ArqQueue and MockArqQueue have in common."""

    async def enqueue(self, task_name: str, *task_args: Any, _queue_name: str | None = None, **task_kwargs: Any) -> Any:  # noqa: ANN401 - Safir's
        """Add a job; returns its metadata, with the id."""

    async def get_job_metadata(self, job_id: str, queue_name: str | None = None) -> Any:  # noqa: ANN401 - Safir's
        """Metadata of a job; raises JobNotFound."""

    async def get_job_result(self, job_id: str, queue_name: str | None = None) -> Any:  # noqa: ANN401 - Safir's
        """Result of a job; raises JobNotFound or JobResultUnavailable."""


class SafirDelivery(Delivery):
    """Sends job ids through Safir's queue. arq workers started with worker_settings() run the jobs."""

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
        self._reception: Reception | None = None

    @override
    def bind(self, reception: Reception) -> None:
        """Remember whose jobs arq workers of this process run."""
        self._reception = reception

    def worker_settings(self, **options: Any) -> type:  # noqa: ANN401 - arq's own options
        """The WorkerSettings for `arq module.WorkerSettings`.

        options: of arq's Worker; redis_settings of the same Redis as the queue's, queue_name, functions of your own.
        """
        if self._reception is None:
            raise ConfigurationError(
                "This SafirDelivery belongs to no application yet; pass it to Rowlock(delivery=…)."
            )
        return worker_settings_of(self._reception, options)

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

    @override
    async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:
        """The messages that the queue does not have any more, or that came to a process which did not run them."""
        asked, turn = list(backend_job_ids), asyncio.Semaphore(_AT_ONCE)

        async def waits(each: str) -> bool:
            async with turn:
                found = await self.get_job_metadata(each)
            return found is not None and found.get("status") != "complete"

        there = await asyncio.gather(*map(waits, asked))
        return [each for each, kept in zip(asked, there, strict=True) if not kept]

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
