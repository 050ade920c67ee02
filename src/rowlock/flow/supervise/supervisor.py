"""Supervisor: starts worker processes, beats for them, starts dead ones again and has their claims rescued at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.flow.executors.os_process import ending
from rowlock.flow.supervise.worker_process import Hand
from rowlock.flow.worker.heartbeat import EVERY
from rowlock.flow.worker.successor import RECYCLED
from rowlock.outage_log import Trouble
from rowlock.store.database import TRANSIENT
from rowlock.store.jobs import workers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowlock.settings import Settings
    from rowlock.store.database import Database

logger = logging.getLogger("rowlock.supervisor")
_TICK: Final = 0.25
_SPARE: Final = 20.0
"""Seconds beyond the drain in which a process must have ended."""
_GRACE: Final = 10.0
"""Seconds for a process whose loop is blocked to give back its claims and end by itself."""
_NO_ROOM: Final = 5.0
_RESCUES: Final = 3
"""Rounds: a claim may commit on the server after the process that sent it is dead."""


class Supervisor:
    """Runs in the main thread of a process of its own, which does nothing else: it never holds up a beat."""

    def __init__(
        self,
        database: Database,
        command: Sequence[str],
        settings: Settings,
        *,
        rescue: Callable[[Sequence[int]], Awaitable[object]],
    ) -> None:
        """command: starts one worker. rescue: what becomes of the claims of these dead workers."""
        self._database, self._settings, self._rescue = database, settings, rescue
        self._hands = [Hand(number, command) for number in range(1, settings.processes + 1)]
        self._stopping = False
        self._stirred = asyncio.Event()
        self._poked = asyncio.Event()
        self._dead: dict[int, int] = {}
        """Dead workers and the rounds of rescue they still get."""
        self._round_at = time.monotonic()

    async def run(self) -> tuple[str, int] | None:
        """Until every process has ended for good; returns why none can start, in their words, and their exit code."""
        self._loop = asyncio.get_running_loop()
        beating = asyncio.create_task(self._beat())
        try:
            while any(hand.running or hand.start_at is not None for hand in self._hands):
                self._round()
                if refusal := self._refusal():
                    return refusal
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_TICK):
                        await self._stirred.wait()
                self._stirred.clear()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            for hand in self._hands:
                hand.signal(signal.SIGKILL)
        with contextlib.suppress(DatabaseError, TimeoutError, *TRANSIENT):
            async with asyncio.timeout(EVERY):
                await self._rescue_dead()
        return None

    def stop(self) -> None:
        """Drain every process; a second time: hurry."""
        hurry, self._stopping = self._stopping, True
        limit = 0.0 if hurry else self._settings.shutdown_after.total_seconds()
        for hand in self._hands:
            hand.start_at = None
            if hand.running:
                # Its own second signal may come from elsewhere (a terminal, systemd): only we know that it is one.
                hand.order("hurry") if hurry else hand.signal(signal.SIGTERM)
                hand.end_within(limit + _SPARE)
        self._stirred.set()

    # --- the processes -----------------------------------------------------------------------------------------------

    def _round(self) -> None:
        now = time.monotonic()
        # After a pause of our own (stopped, suspended) nobody is judged by what we did not see.
        paused, self._round_at = now - self._round_at > _GRACE, now
        for hand in self._hands:
            if hand.running:
                code = hand.ended()
                if code is not None:
                    self._on_end(hand, code)
                elif not hand.overdue():
                    self._judge(hand, paused=paused)
            if not hand.running and hand.start_at is not None and hand.start_at <= now:
                self._start(hand)
        if not self._stopping:
            self._replace_one()

    def _start(self, hand: Hand) -> None:
        try:
            hand.start()
        except OSError as error:
            # No memory, or too many processes: the others go on, and there may be room again.
            hand.start_at = time.monotonic() + _NO_ROOM
            logger.error("process %d cannot be started: %s (again in %g s)", hand.number, error, _NO_ROOM)  # noqa: TRY400 - the system's answer, no defect
            return
        self._loop.add_reader(hand.line, self._on_line, hand)
        logger.info("process %d started (pid %d)", hand.number, hand.pid)

    def _on_line(self, hand: Hand) -> None:
        known = hand.worker
        if not hand.hear():
            # Its end is closed: most likely it is dead, which poll() will see at once.
            self._loop.remove_reader(hand.line)
            self._stirred.set()
        if hand.asks or hand.worker != known:
            self._stirred.set()

    def _judge(self, hand: Hand, *, paused: bool) -> None:
        hand.look()
        limit = self._settings.blocked_limit
        if not limit or hand.worker is None:
            return
        if paused:
            hand.signed = time.monotonic()
        silent = time.monotonic() - hand.signed
        if silent > limit.total_seconds() or hand.blocked > limit.total_seconds() + _GRACE:
            logger.error(
                "process %d (pid %d) has given no sign of life for %.0f s: it is killed and its jobs are rescued. "
                "A handler holds the interpreter; where, the process says itself:",
                hand.number,
                hand.pid,
                max(silent, hand.blocked),
            )
            hand.blocked, hand.signed = 0.0, time.monotonic()
            hand.abort()

    def _on_end(self, hand: Hand, code: int) -> None:
        # Before it is closed: the next line may get the same descriptor, and the loop would know it already.
        self._loop.remove_reader(hand.line)
        hand.line.close()
        if hand.worker is not None:
            self._dead[hand.worker] = _RESCUES
            self._poked.set()
        told = self._stopping or hand.over == "drain"
        if told:
            logger.info("process %d ended %s", hand.number, ending(code))
            return
        if code == RECYCLED and hand.replacing:
            hand.plan(failed=False)
            return
        delay = hand.plan(failed=True)
        why = hand.over or (hand.refusal[0] if hand.refusal else ending(code))
        again = f", {hand.failures} times in a row soon after its start" if hand.failures > 1 else ""
        then = f"the next one starts in {delay:g} s" if delay else "another is started"
        logger.error("process %d ended%s: %s (%s)", hand.number, again, why, then)

    def _refusal(self) -> tuple[str, int] | None:
        """Looping would not help when no process can start, each for a reason it could tell."""
        refusals = [hand.refusal for hand in self._hands if hand.refusal is not None]
        return refusals[0] if len(refusals) == len(self._hands) and not self._stopping else None

    def _replace_one(self) -> None:
        """Let one worn process go, when all others are at work: never all of them at the same moment."""
        if any(hand.start_at is not None or (hand.running and hand.replacing) for hand in self._hands):
            return
        if any(hand.running and hand.worker is None for hand in self._hands):
            return
        for hand in self._hands:
            if hand.running and hand.asks:
                hand.replacing = True
                logger.info("process %d is replaced: %s", hand.number, hand.asks)
                hand.order("recycle")
                hand.end_within(self._settings.shutdown_after.total_seconds() + _SPARE)
                return

    # --- the database ------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """One statement for all that live, and the rescue of those that do not."""
        trouble = Trouble(logger, "no beat for the processes", "the processes have a beat again")
        while True:
            try:
                living = [hand.worker for hand in self._hands if hand.running and hand.worker and not hand.stopped]
                if living:
                    await workers.vouch(self._database, living)
                await self._rescue_dead()
                trouble.over()
            except (DatabaseError, TimeoutError, *TRANSIENT) as error:
                trouble.met(error)
            except Exception as error:  # noqa: BLE001 - the processes go on, whatever it was
                trouble.met(error, unforeseen=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._poked.wait()
            self._poked.clear()

    async def _rescue_dead(self) -> None:
        dead = list(self._dead)
        if not dead:
            return
        await self._rescue(dead)
        for worker in dead:
            self._dead[worker] -= 1
            if not self._dead[worker]:
                del self._dead[worker]
