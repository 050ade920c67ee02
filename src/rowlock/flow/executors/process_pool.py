"""ChildPool: runs jobs in child processes, one job at a time in each, so that a crash hurts no other job.

A child is started when none is idle, reused for some jobs, asked to stop like any handler, and killed if it does not.
Two sorts of jobs run here: kinds with executor="process", and suspects, whose worker died under them before.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rowlock.errors import RowlockError
from rowlock.flow.kinds.import_origin import NO_ORIGIN, importable

if TYPE_CHECKING:
    from rowlock.flow.executors.child_handle import ChildProcess
    from rowlock.flow.executors.child_limits import ChildLimits
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.kinds.import_origin import Origin
    from rowlock.flow.run.attempt import RunningAttempt
    from rowlock.model.outcome import Outcome
    from rowlock.settings import Settings


class ChildPool:
    """The child processes of one worker."""

    def __init__(self, origin: Origin | None, settings: Settings, limits: ChildLimits) -> None:
        self._origin, self._settings, self._limits = origin, replace(settings, worker=False), limits
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()
        self._suspect_slots = asyncio.Semaphore(limits.suspects)
        self._broken = ""
        """Why a child could not import the application; suspects then run like other jobs."""

    def isolates(self, handler: Handler) -> bool:
        """Whether jobs of this handler can run in a child: it has to import the function and the application."""
        return self._origin is not None and not self._broken and importable(handler)

    async def run(self, attempt: RunningAttempt) -> Outcome:
        """Run an attempt in an idle child or in a new one."""
        child = await self._idle_or_new()
        return await self._run_in(child, attempt, reuse=True)

    async def run_alone(self, attempt: RunningAttempt) -> Outcome:
        """Run a suspect in a child of its own, which runs no other job before or after."""
        async with self._suspect_slots:
            child = await self._started()
            return await self._run_in(child, attempt, reuse=False)

    async def _run_in(self, child: ChildProcess, attempt: RunningAttempt, *, reuse: bool) -> Outcome:
        try:
            outcome = await child.run(attempt, self._limits)
        finally:
            if reuse and child.usable(self._limits):
                child.rest(self._idle)
            else:
                child.leave()
        return outcome

    async def _idle_or_new(self) -> ChildProcess:
        while self._idle:
            child = self._idle.pop()
            if child.wake():
                return child
        return await self._started()

    async def _started(self) -> ChildProcess:
        if self._origin is None:
            raise RowlockError(NO_ORIGIN)
        from rowlock.flow.executors.child_handle import ChildProcess  # noqa: PLC0415 - few workers have children
        from rowlock.flow.executors.child_messages import StartChild  # noqa: PLC0415 - as above

        child = ChildProcess()
        self._all.add(child)
        try:
            await child.start(StartChild(self._origin, list(sys.path), self._settings, _levels()))
        except BaseException as error:
            child.kill()
            if isinstance(error, RowlockError):
                self._broken = str(error)
            raise
        finally:
            self._all = {known for known in self._all if known.alive}
        return child

    async def close(self) -> None:
        """End every child: an idle one by itself, so that its exporters send what they hold; the others are killed."""
        resting = set(self._idle)
        self._idle.clear()
        for child in self._all:
            if child in resting:
                child.leave()
            elif child.alive:
                child.kill()
        await asyncio.gather(*(child.ended() for child in self._all), return_exceptions=True)


def _levels() -> dict[str, int]:
    return {"": logging.getLogger().level, "rowlock": logging.getLogger("rowlock").level}
