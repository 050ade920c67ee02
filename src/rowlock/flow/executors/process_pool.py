"""Processes: jobs that have a child process for themselves, so that whatever they do hurts nobody else.

A child is started when none is idle, reused for some jobs, told to stop like any handler and killed when it does not.
Two sorts of jobs come here: kinds that ask for it, and suspects, whose worker died under them once before.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowlock.errors import RowlockError
from rowlock.flow.kinds.import_origin import NO_ORIGIN, importable

if TYPE_CHECKING:
    from rowlock.flow.executors.child_handle import Child
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.kinds.import_origin import Origin
    from rowlock.flow.run.attempt import Attempt
    from rowlock.model.outcome import Outcome
    from rowlock.settings import Settings


@dataclass(frozen=True, slots=True)
class Terms:
    """How children are kept. patience: seconds from told to stop to killed; memory: bytes, None: no limit."""

    patience: float
    jobs: int
    memory: int | None
    suspects: int
    """Suspects that are run at once: a lost worker may leave hundreds behind."""
    max_deaths: int

    @classmethod
    def of(cls, settings: Settings) -> Terms:
        """As the settings say."""
        return cls(
            patience=settings.stop_patience.total_seconds(),
            jobs=settings.child_jobs,
            memory=settings.child_memory,
            suspects=max(2, os.cpu_count() or 2),
            max_deaths=settings.max_losses,
        )


class Children:
    """The child processes of one worker."""

    def __init__(self, origin: Origin | None, settings: Settings, terms: Terms) -> None:
        self._origin, self._settings, self._terms = origin, replace(settings, worker=False), terms
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._room_for_suspects = asyncio.Semaphore(terms.suspects)
        self._broken = ""
        """Why a child could not import the application; suspects are then run like anybody else."""

    def isolates(self, handler: Handler) -> bool:
        """Whether jobs of this handler can be run in a child: it finds the function and the application by import."""
        return self._origin is not None and not self._broken and importable(handler)

    async def run(self, attempt: Attempt) -> Outcome:
        """Run an attempt in a child, reused or new."""
        child = await self._child()
        return await self._watched(child, attempt, reuse=True)

    async def run_alone(self, attempt: Attempt) -> Outcome:
        """Run a suspect in a child that has seen no other job and will see none."""
        async with self._room_for_suspects:
            child = await self._started()
            return await self._watched(child, attempt, reuse=False)

    async def _watched(self, child: Child, attempt: Attempt, *, reuse: bool) -> Outcome:
        try:
            outcome = await child.run(attempt, self._terms)
        finally:
            if reuse and child.usable(self._terms):
                child.rest(self._idle)
            else:
                child.leave()
        return outcome

    async def _child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.wake():
                return child
        return await self._started()

    async def _started(self) -> Child:
        if self._origin is None:
            raise RowlockError(NO_ORIGIN)
        from rowlock.flow.executors.child_handle import Child  # noqa: PLC0415 - few workers have children
        from rowlock.flow.executors.child_messages import Hello  # noqa: PLC0415 - as above

        child = Child()
        self._all.add(child)
        try:
            await child.start(Hello(self._origin, list(sys.path), self._settings, _levels()))
        except BaseException as error:
            child.kill()
            if isinstance(error, RowlockError):
                self._broken = str(error)
            raise
        finally:
            self._all = {known for known in self._all if known.alive}
        return child

    async def close(self) -> None:
        """End every child, now."""
        for child in self._all:
            if child.alive:
                child.kill()
        await asyncio.gather(*(child.ended() for child in self._all), return_exceptions=True)


def _levels() -> dict[str, int]:
    return {"": logging.getLogger().level, "rowlock": logging.getLogger("rowlock").level}
