"""What a carrier is: QueueBackend, the protocol; Delivery, the base of Rowlock's carriers; Message, what they carry."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from typing_extensions import override

from rowlock.errors import ConfigurationError
from rowlock.model.keys import is_key, shown
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rowlock.delivery.reception import Reception
    from rowlock.model.options import Span

TASK: Final = "rowlock.run_job"
"""Name of the function, or task, that runs a job; arq and Celery look it up by this name."""
REDELIVER_AFTER: Final = timedelta(seconds=60)
_AT_ONCE: Final = 16
"""Messages under way at once to a backend that takes them one by one."""


@runtime_checkable
class QueueBackend(Protocol):
    """A queue that carries messages. Rowlock's table knows the jobs; the queue need not keep its messages safe."""

    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Send a message; returns the backend's id of it, or None if there is none. payload: {"job_id": "142C-…"}."""

    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """What the backend knows of a message, for diagnosis; None: nothing."""

    async def get_job_result(self, backend_job_id: str) -> object | None:
        """The result that the backend keeps; None: it keeps none."""


@dataclass(frozen=True, slots=True)
class Message:
    """A job that a carrier is to bring to a process. queue: the name of the job's lane."""

    job_id: str
    kind: str
    queue: str

    @property
    def payload(self) -> dict[str, Any]:
        """What travels: the public id of the job and nothing of its content."""
        return {"job_id": self.job_id}


class Delivery:
    """A carrier. Subclasses send messages; the process that gets one calls Reception.run()."""

    def __init__(self, *, name: str, redeliver_after: Span = REDELIVER_AFTER) -> None:
        """name: in the table job_deliveries. redeliver_after: a job that still waits then gets another message."""
        if not is_key(name):
            raise ConfigurationError(f"A carrier's name is a text of 1 to 1000 bytes; got {shown(name)}.")
        self.name = name
        self.redeliver_after = duration(redeliver_after, name="redeliver_after")
        if self.redeliver_after < timedelta(seconds=1):
            raise ConfigurationError(f"redeliver_after is a second or longer; got {redeliver_after!r}.")

    def bind(self, reception: Reception) -> None:
        """Get to know the application; called once, when the carrier is given to Rowlock(…) or @app.job(…)."""

    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Send one message; returns the carrier's id of it."""
        raise NotImplementedError

    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """What the carrier knows of a message, for diagnosis; None: nothing."""
        raise NotImplementedError

    async def get_job_result(self, backend_job_id: str) -> object | None:
        """The result that the carrier keeps; None: it keeps none."""
        raise NotImplementedError

    async def send(self, messages: Sequence[Message]) -> list[str | None]:
        """Send messages; returns their ids. Raises if any could not be sent; then all of them are sent again later."""
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(message: Message) -> str | None:
            async with turn:
                return await self.enqueue(message.kind, message.payload, queue_name=message.queue)

        return list(await asyncio.gather(*map(one, messages)))

    async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:  # noqa: ARG002 - for subclasses
        """Those of these messages that the carrier has certainly lost; a carrier that cannot tell returns none."""
        return ()

    async def close(self) -> None:
        """Close the connections of the running event loop."""


class BackendDelivery(Delivery):
    """A carrier made of any QueueBackend. The process behind it calls `await app.run_delivered(payload["job_id"])`."""

    def __init__(
        self, backend: QueueBackend, *, name: str | None = None, redeliver_after: Span = REDELIVER_AFTER
    ) -> None:
        """name: by default the name of the backend's class."""
        super().__init__(name=name or type(backend).__name__, redeliver_after=redeliver_after)
        self._backend = backend

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Send one message."""
        return await self._backend.enqueue(job_type, payload, queue_name=queue_name)

    @override
    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """What the backend knows of a message."""
        return await self._backend.get_job_metadata(backend_job_id)

    @override
    async def get_job_result(self, backend_job_id: str) -> object | None:
        """The result that the backend keeps."""
        return await self._backend.get_job_result(backend_job_id)
