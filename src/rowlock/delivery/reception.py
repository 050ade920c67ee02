"""Reception: what a carrier calls when a message arrives, in whatever process that is."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.bridge import in_thread
from rowlock.errors import JobNotFound, UnknownKind, WrongState
from rowlock.model import ids
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from rowlock.bridge import Bridge
    from rowlock.flow.worker.job_runner import JobRunner
    from rowlock.model.job import Job
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.delivery")
_REFUSED: Final = timedelta(seconds=1)
"""How long a job waits for its next message that could not start when the last one came."""
_FOREIGN: Final = timedelta(seconds=5)
"""The same for a process that does not know the job's kind: another one may."""


class Reception:
    """Runs the jobs that messages name. A message too many changes nothing: the claim decides."""

    def __init__(
        self,
        database: Callable[[], Database],
        runner: Callable[[], JobRunner],
        read: Callable[[int], Awaitable[Job]],
        bridge: Bridge,
        close: Callable[[], Coroutine[object, object, None]],
    ) -> None:
        """read: a job as it is now; close: closes the application in this process."""
        self._open, self._runner, self._read, self._bridge, self._close = database, runner, read, bridge, close

    async def run(self, job_id: int | str) -> Job | None:
        """Claim the job and run it to its end; None: it has ended, runs elsewhere, or cannot start now."""
        number = ids.parse(job_id)
        try:
            ran = await self._runner().run(number)
        except JobNotFound:
            return None
        except UnknownKind as error:
            logger.error("%s", error)  # noqa: TRY400 - the message says it all
            await self._return(number, _FOREIGN)
            return None
        except WrongState as error:
            logger.debug("%s", error)
            ran = False
        if not ran:
            await self._return(number, _REFUSED)
            return None
        try:
            return await self._read(number)
        except JobNotFound:
            return None  # its retention is shorter than the way here

    def run_sync(self, job_id: int | str) -> Job | None:
        """run() for carriers whose workers block, from any thread."""
        return self._bridge.run(self.run(job_id))

    async def start(self) -> None:
        """Start this process's worker now, so that it takes part in upkeep before the first message comes."""
        await self._runner().worker()

    def start_soon(self) -> None:
        """start() for carriers whose workers block; does not wait, since the database may be away."""
        self._bridge.call_soon(self.start())

    async def close(self) -> None:
        """Close the application in this process: running jobs end, or go back to the queue."""
        await self._close()

    def close_sync(self) -> None:
        """close() for carriers whose workers block."""
        in_thread(lambda: asyncio.run(self._close()))

    async def _return(self, number: int, after: timedelta) -> None:
        """A job that still waits needs another message; for one that has ended, or runs, this changes nothing."""
        await self._open().fetch("undeliver", ids=[number], after=after, counts=True)


def result_of(job: Job | None) -> object:
    """The value that a carrier may keep as the result of a message."""
    return job.result if job is not None and job.state in (State.COMPLETED, State.COMPLETED_WITH_ERRORS) else None
