"""CeleryDelivery: a Celery broker, Redis or RabbitMQ, brings jobs to Celery workers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar
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
_MOST_CALLS: Final = 4
"""Calls of Celery's client at once; more are refused while a broker hangs."""


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
        self._threads = _Threads(_MOST_CALLS)
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
        return await self._threads.run(lambda: self._send([(payload["job_id"], queue_name)])[0])

    @override
    async def send(self, messages: Sequence[Message]) -> list[str | None]:
        """Send messages over one connection."""
        return await self._threads.run(lambda: self._send([(message.job_id, message.queue) for message in messages]))

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
        return await self._threads.run(lambda: self._metadata(backend_job_id))

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

        return await self._threads.run(read)

    @override
    async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:
        """All of them, if Redis holds no message of these queues at all; RabbitMQ cannot be asked.

        A message is in its queue, or, until it is acknowledged, in the hash of those that a worker has fetched.
        """
        return list(backend_job_ids) if await self._threads.run(self._is_empty) else ()

    def _is_empty(self) -> bool:
        with self.celery.connection_for_read() as connection:
            channel = connection.default_channel
            if connection.transport.driver_type != "redis":
                return False
            queues = {self._queue or self.celery.conf.task_default_queue, *self._queues.values()}
            with channel.conn_or_acquire() as client:
                fetched = client.hlen(channel.unacked_key)
            return not fetched and not any(channel._size(queue) for queue in queues)  # noqa: SLF001 - counts all priorities


class _Threads:
    """Threads for Celery's client, which blocks. Threads of their own, and few: a broker that hangs keeps them.

    The event loop's own threads would be missing where names are resolved, and the process would wait for them at its
    end.
    """

    def __init__(self, most: int) -> None:
        self._most, self._free = most, threading.BoundedSemaphore(most)

    async def run(self, work: Callable[[], T]) -> T:
        """What the work returns. TimeoutError: as many calls as there may be still wait for the broker."""
        if not self._free.acquire(blocking=False):
            raise TimeoutError(f"{self._most} earlier calls still wait for its broker")
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        answer.set_running_or_notify_cancel()
        try:
            threading.Thread(target=self._work, args=(work, answer), name="rowlock-celery", daemon=True).start()
        except RuntimeError as error:
            if "shutdown" not in str(error):
                self._free.release()
                raise
            # While the interpreter shuts down no thread can be started, and only this loop waits.
            self._work(work, answer)
        return await asyncio.wrap_future(answer)

    def _work(self, work: Callable[[], T], answer: concurrent.futures.Future[T]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            self._free.release()
            answer.set_exception(error)
        else:
            self._free.release()
            answer.set_result(result)
