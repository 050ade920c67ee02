"""Chain: a step that this process has just released is claimed by its id and run here, not sent through the queue."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseUnreachable
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from datetime import datetime

    from rowlock.flow.claim.claimer import Claimer
    from rowlock.flow.claim.db_clock import Clock
    from rowlock.flow.enqueue.wake import Pair
    from rowlock.flow.worker.claim_loop import Rounds
    from rowlock.flow.worker.slots import Crew
    from rowlock.model.lane import Lane
    from rowlock.model.released_jobs import Released
    from rowlock.store.database import Record

logger = logging.getLogger("rowlock.worker")
_SOON: Final = 0.05
"""Seconds by which what is known of the database's clock may be behind it; the claim itself decides what is due."""


class Chain:
    """Goes on with what a flush released. It only hurries: whatever becomes of this process, the steps are queued.

    Strict and fair lanes decide over all workers who is next, so their steps go through the queue.
    """

    def __init__(
        self,
        claimer: Claimer,
        crew: Crew,
        rounds: Rounds,
        clock: Clock,
        *,
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
        tell: Callable[[Iterable[tuple[Pair, datetime]]], None],
    ) -> None:
        """spawn: has a coroutine run; tell: everybody, of steps that are not run here."""
        self._claimer, self._crew, self._rounds, self._clock = claimer, crew, rounds, clock
        self._spawn, self._tell = spawn, tell
        self.on = True
        """Off: a worker that is told what to run claims nothing by itself."""
        self._under_way: set[asyncio.Task[None]] = set()

    @property
    def in_flight(self) -> bool:
        """Whether a claim was sent and what it took is not known or not started yet."""
        return bool(self._under_way)

    async def settled(self, timeout: float) -> None:
        """Wait for claims under way: what they bring to a worker that stops is given back."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=timeout)

    def follow(self, steps: Sequence[Released]) -> None:
        """Run here what has room here, and leave the rest to everybody. The slots are taken before this returns."""
        mine: defaultdict[str, list[Released]] = defaultdict(list)
        others = []
        room: dict[str, int] = {}
        for step in sorted(steps, key=lambda step: (-step.pair[1], step.id)):
            lane = self._lane_for(step)
            if lane is not None:
                room.setdefault(lane.name, self._crew.free(lane.name, lane.slots))
            if lane is None or room[lane.name] <= 0:
                others.append(step)
            else:
                room[lane.name] -= 1
                mine[lane.name].append(step)
        if others:
            self._leave(others)
        for name, chosen in mine.items():
            self._crew.reserve(name, len(chosen))
            task = self._spawn(self._take(name, chosen))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def _lane_for(self, step: Released) -> Lane | None:
        """The lane that can run it here and now; None: none can."""
        if not self.on or self._rounds.draining or self._clock.ahead(step.run_after) > _SOON:
            return None
        lane = self._rounds.lanes().get(self._claimer.lane_of(step.pair[0]) or "")
        return lane if lane is not None and lane.enabled and lane.order == "fast" else None

    def _leave(self, steps: Iterable[Released]) -> None:
        self._tell((step.pair, step.run_after) for step in steps)

    async def _take(self, lane: str, steps: Sequence[Released]) -> None:
        rows: Sequence[Record] = ()
        try:
            rows = await self._claimer.claim_released(steps, lane)
        except BaseException as error:
            # The claim may have been made and only its answer lost.
            self._rounds.doubts = 2
            if not isinstance(error, (DatabaseUnreachable, *TRANSIENT)):
                raise
            logger.warning("a released step could not be claimed: %s", error)
        finally:
            self._crew.reserve(lane, -len(steps))
            taken = {row["id"] for row in rows}
            if rest := [step for step in steps if step.id not in taken]:
                self._leave(rest)
        if self._rounds.draining:
            for row in rows:
                self._crew.give_back(row)
        else:
            self._crew.run(rows)
