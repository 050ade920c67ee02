"""Rowlock itself, through its public doors: `rowlock worker` and the task's own enqueue calls.

BENCH_KINDS and BENCH_LANES make more of them; BENCH_PAYLOAD adds so many bytes to every job's arguments.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Final

from bench import probe
from bench.driver import Driver
from rowlock import Rowlock
from rowlock.model.lane import Lane
from rowlock.settings import Settings

if TYPE_CHECKING:
    from rowlock.tasks import Task

SLOTS: Final = int(os.environ.get("BENCH_SLOTS", "10"))
KINDS: Final = int(os.environ.get("BENCH_KINDS", "1"))
LANES: Final = int(os.environ.get("BENCH_LANES", "1"))
PAYLOAD: Final = "x" * int(os.environ.get("BENCH_PAYLOAD", "0"))
QUICK: Final = "quick"
_BATCH: Final = 5000


def _lanes() -> tuple[Lane, ...]:
    """One lane for every kind, or several with a share of them; `quick` is for what must not wait behind the rest."""
    if LANES == 1:
        return (Lane("default", kinds=("*",), slots=SLOTS), Lane(QUICK, kinds=(QUICK,), slots=SLOTS))
    shares: list[list[str]] = [[] for _ in range(LANES)]
    for kind in range(KINDS):
        shares[kind % LANES].append(f"noop{kind}")
    # To the nearest, so that all of them together have about as many slots as the one lane they are compared with.
    slots = max(1, round(SLOTS / LANES))
    return tuple(Lane(f"lane{n}", kinds=tuple(kinds), slots=slots) for n, kinds in enumerate(shares))


app = Rowlock(settings=Settings(database_url=os.environ.get("BENCH_URL"), lanes=_lanes()))


async def _noop(number: int, payload: str = "") -> None:  # noqa: ARG001 - the payload is there to be carried
    probe.hit(number)


TASKS: Final[list[Task[..., None]]] = [app.job(f"noop{kind}")(_noop) for kind in range(KINDS)]
quick: Final = app.job(QUICK)(_noop)


class Itself(Driver):
    """Rowlock."""

    async def install(self) -> None:
        """Make the tables."""
        await app.upgrade()
        await app.close()

    async def open(self) -> None:
        """Connect at first use."""
        self._turn = 0
        self._enqueue = functools.partial(TASKS[0].enqueue, payload=PAYLOAD) if PAYLOAD else TASKS[0].enqueue

    async def close(self) -> None:
        """Tell workers what they have not heard yet, and disconnect."""
        await app.close()

    async def enqueue(self, number: int) -> None:
        """The kinds in turn."""
        if KINDS == 1:
            await self._enqueue(number=number)
            return
        self._turn = (self._turn + 1) % KINDS
        await TASKS[self._turn].enqueue(number=number)

    async def enqueue_many(self, jobs: int) -> None:
        """An equal part of each kind."""
        args: dict[str, object] = {"number": probe.UNNUMBERED} | ({"payload": PAYLOAD} if PAYLOAD else {})
        for n, task in enumerate(TASKS):
            share = jobs // KINDS + (n < jobs % KINDS)
            for done in range(0, share, _BATCH):
                await task.enqueue_many([args] * min(_BATCH, share - done))

    def command(self) -> list[str]:
        """The command users start."""
        worker = [sys.executable, "-m", "rowlock", "worker"]
        return [*worker, "--app", "bench.peers.rowlock:app", "--log-level", "warning"]


def make() -> Driver:
    """The driver."""
    return Itself()
