"""FastPath: a workflow step that this process has just released is claimed by its id and run here at once."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from rowlock.flow.claim.claimer import Claimer
    from rowlock.flow.claim.db_clock import DatabaseClock
    from rowlock.flow.worker.claim_loop import ClaimLoop
    from rowlock.flow.worker.slots import Slots
    from rowlock.model.lane import Lane
    from rowlock.model.queue_pair import PairStart
    from rowlock.model.released_jobs import ReleasedJob
    from rowlock.store.database import Record

logger = logging.getLogger("rowlock.worker")
_SOON: Final = 0.05
"""Seconds by which the known database clock may be late; the claim itself decides what is due."""


class FastPath:
    """Runs released steps without the way through the queue. It only saves time: the steps are queued all the same.

    Strict and fair lanes decide over all workers which job is next, so their steps go through the queue.
    """

    def __init__(
        self,
        claimer: Claimer,
        slots: Slots,
        claim_loop: ClaimLoop,
        clock: DatabaseClock,
        *,
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
        announce: Callable[[Iterable[PairStart]], None],
    ) -> None:
        """spawn: runs a coroutine in a task; announce: wakes workers for steps that are not run here."""
        self._claimer, self._slots, self._claim_loop, self._clock = claimer, slots, claim_loop, clock
        self._spawn, self._announce = spawn, announce
        self.enabled = True
        """False for a worker that runs only the jobs it is given by id."""
        self._claims: set[asyncio.Task[None]] = set()

    async def wait_for_claims(self, timeout: float) -> None:
        """Wait for claims under way; a worker that stops gives their jobs back."""
        if self._claims:
            await asyncio.wait(self._claims, timeout=timeout)

    def follow(self, steps: Sequence[ReleasedJob]) -> None:
        """Claim the steps that have a free slot here, and announce the others. Reserves the slots before it returns."""
        mine: defaultdict[str, list[ReleasedJob]] = defaultdict(list)
        others = []
        room: dict[str, int] = {}
        for step in sorted(steps, key=lambda step: (-step.pair[1], step.id)):
            lane = self._lane_for(step)
            if lane is not None:
                room.setdefault(lane.name, self._slots.free(lane.name, lane.slots))
            if lane is None or room[lane.name] <= 0:
                others.append(step)
            else:
                room[lane.name] -= 1
                mine[lane.name].append(step)
        if others:
            self._leave(others)
        for name, chosen in mine.items():
            self._slots.reserve(name, len(chosen))
            task = self._spawn(self._claim(name, chosen))
            self._claims.add(task)
            task.add_done_callback(self._claims.discard)

    def _lane_for(self, step: ReleasedJob) -> Lane | None:
        """The lane that can run the step here and now; None: no lane can."""
        if not self.enabled or self._claim_loop.draining or self._clock.seconds_until(step.run_after) > _SOON:
            return None
        if not self._claimer.claims(step.pair[0]):
            return None
        lane = self._claim_loop.lanes().get(self._claimer.lane_of(step.pair[0]) or "")
        return lane if lane is not None and lane.enabled and lane.order == "fast" else None

    def _leave(self, steps: Iterable[ReleasedJob]) -> None:
        self._announce((step.pair, step.run_after) for step in steps)

    async def _claim(self, lane: str, steps: Sequence[ReleasedJob]) -> None:
        rows: Sequence[Record] = ()
        began = asyncio.get_running_loop().time()
        try:
            with self._claimer.in_flight.sending():
                try:
                    rows = await self._claimer.claim_released(steps, lane)
                finally:
                    self._release(lane, steps, rows)
                if self._claim_loop.draining:
                    for row in rows:
                        self._slots.give_back(row)
                else:
                    self._slots.run(rows, began)
        except (DatabaseError, *TRANSIENT) as error:
            # The step is queued: the claim loop finds it, and sets it aside if it is to blame.
            logger.warning("a released step could not be claimed: %s", error)

    def _release(self, lane: str, steps: Sequence[ReleasedJob], rows: Sequence[Record]) -> None:
        """Give the reserved slots back, and announce the steps that were not claimed."""
        self._slots.reserve(lane, -len(steps))
        claimed = {row["id"] for row in rows}
        if left := [step for step in steps if step.id not in claimed]:
            self._leave(left)
