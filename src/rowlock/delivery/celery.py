"""CeleryDelivery: a Celery broker, Redis or RabbitMQ, brings jobs to Celery workers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from typing_extensions import override

from rowlock.delivery.backend import REDELIVER_AFTER, TASK, Delivery
from rowlock.delivery.reception import result_of
from rowlock.errors import ConfigurationError, MissingExtra
from rowlock.model.keys import shown

try:
    from celery import Celery, signals
    from celery.result import AsyncResult
except ImportError as error:
    raise MissingExtra("Celery", "celery") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rowlock.delivery.backend import Message
    from rowlock.delivery.reception import Reception
    from rowlock.model.options import Span


T = TypeVar("T")


class CeleryDelivery(Delivery):
    """Sends job ids over Celery's broker. Celery workers of the same Celery application run the jobs.

    The task acknowledges its message before it runs: a job whose worker dies is Rowlock's to rescue, not the broker's.
    """

    def __init__(
        self,
        celery: Celery,
        *,
        queue: str | None = None,
        queues: Mapping[str, str] | None = None,
        name: str = "celery",
        redeliver_after: Span = REDELIVER_AFTER,
    ) -> None:
        """queue: Celery's queue for every lane but those in queues, {lane: queue}; by default task_default_queue."""
        super().__init__(name=name, redeliver_after=redeliver_after)
        if not isinstance(celery, Celery):
            raise ConfigurationError(
                f"CeleryDelivery takes a Celery application, Celery(broker=…); got {shown(celery)}."
            )
        self.celery, self._queue, self._queues = celery, queue, dict(queues or {})
        self._task_name = TASK if name == "celery" else f"{TASK}.{name}"

    @override
    def bind(self, reception: Reception) -> None:
        """Register the task that runs jobs, and have worker processes take part in upkeep from their start."""

        def run_job(job_id: str) -> object:
            return result_of(reception.run_sync(job_id))

        def start(**_: object) -> None:
            reception.start_soon()

        def end(**_: object) -> None:
            reception.close_sync()

        self.celery.task(run_job, name=self._task_name, acks_late=False, shared=False)
        # Child processes of the prefork pool send the first two, a solo worker the first and the last.
        signals.worker_process_init.connect(start, weak=False)
        signals.worker_process_shutdown.connect(end, weak=False)
        signals.worker_shutdown.connect(end, weak=False)

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Send one message; returns Celery's id of it."""
        return await _in_thread(lambda: self._send([(payload["job_id"], queue_name)])[0])

    @override
    async def send(self, messages: Sequence[Message]) -> list[str | None]:
        """Send messages over one connection."""
        return await _in_thread(lambda: self._send([(message.job_id, message.queue) for message in messages]))

    def _send(self, messages: Sequence[tuple[str, str]]) -> list[str | None]:
        sent: list[str | None] = []
        with self.celery.producer_or_acquire() as producer:
            for job_id, lane in messages:
                number = str(uuid4())
                queue = self._queues.get(lane, self._queue)
                more = {} if queue is None else {"queue": queue}
                self.celery.send_task(
                    self._task_name, args=[job_id], task_id=number, producer=producer, retry=False, **more
                )
                sent.append(number)
        return sent

    @override
    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """The state that Celery's result backend knows; None: it has no backend, or knows nothing."""
        return await _in_thread(lambda: self._metadata(backend_job_id))

    def _metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        found = AsyncResult(backend_job_id, app=self.celery)
        with contextlib.suppress(NotImplementedError, AttributeError):  # there is no result backend
            # PENDING is also the state of a message that nobody ever sent.
            return None if found.state == "PENDING" else {"status": found.state, "date_done": found.date_done}
        return None

    @override
    async def get_job_result(self, backend_job_id: str) -> object | None:
        """The result that Celery's result backend keeps; None: it keeps none."""

        def read() -> object | None:
            found = AsyncResult(backend_job_id, app=self.celery)
            with contextlib.suppress(NotImplementedError, AttributeError):  # there is no result backend
                return found.result if found.state == "SUCCESS" else None
            return None

        return await _in_thread(read)

    @override
    async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:
        """All of them, if Redis holds no message of these queues at all; RabbitMQ cannot be asked.

        A message is in its queue, or, until it is acknowledged, in the hash of those that a worker has fetched.
        """
        return list(backend_job_ids) if await _in_thread(self._is_empty) else ()

    def _is_empty(self) -> bool:
        with self.celery.connection_for_read() as connection:
            channel = connection.default_channel
            if connection.transport.driver_type != "redis":
                return False
            queues = {self._queue or self.celery.conf.task_default_queue, *self._queues.values()}
            with channel.conn_or_acquire() as client:
                fetched = client.hlen(channel.unacked_key)
            return not fetched and not any(channel._size(queue) for queue in queues)  # noqa: SLF001 - counts all priorities


async def _in_thread(work: Callable[[], T]) -> T:
    """Celery's client blocks. While the interpreter shuts down no thread can be started, and only this loop waits."""
    try:
        return await asyncio.to_thread(work)
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
        return work()
