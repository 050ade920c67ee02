"""Supervisor: starts worker processes, beats for them, restarts dead ones and has their claims rescued at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseError
from rowlock.flow.executors.os_process import ending
from rowlock.flow.supervise.worker_process import WorkerProcess
from rowlock.flow.worker.health import HUNG_AFTER, SignsOfLife, WorkerHealth, WorkerPhase
from rowlock.flow.worker.heartbeat import EVERY
from rowlock.flow.worker.process_replacement import RECYCLED
from rowlock.outage_log import OutageLog
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
"""Times: a claim may commit on the server after the process that sent it is dead."""


class Supervisor:
    """Runs in the main thread of a process that does nothing else, so that nothing holds up its beats."""

    def __init__(
        self,
        database: Database,
        command: Sequence[str],
        settings: Settings,
        *,
        rescue: Callable[[Sequence[int]], Awaitable[object]],
    ) -> None:
        """command: starts one worker; rescue: called with the ids of dead workers, gives their claims back."""
        self._database, self._settings, self._rescue = database, settings, rescue
        self._processes = [WorkerProcess(number, command) for number in range(1, settings.processes + 1)]
        self._stopping = False
        self._check_now = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._dead: dict[int, int] = {}
        """Dead workers and how many more times their claims are rescued."""
        self._checked_at = time.monotonic()
        self._signs, self._ended = SignsOfLife(), False

    async def run(self) -> tuple[str, int] | None:
        """Run until every process has ended for good; returns why no process can start, and the exit code for that."""
        self._loop = asyncio.get_running_loop()
        beating = asyncio.create_task(self._beat())
        try:
            while any(process.running or process.start_at is not None for process in self._processes):
                self._check_processes()
                if refusal := self._refusal():
                    return refusal
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_TICK):
                        await self._check_now.wait()
                self._check_now.clear()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            for process in self._processes:
                process.signal(signal.SIGKILL)
            self._ended = True
        with contextlib.suppress(DatabaseError, TimeoutError, *TRANSIENT):
            async with asyncio.timeout(EVERY):
                await self._rescue_dead()
        return None

    def stop(self) -> None:
        """Drain every process; a second time: hurry."""
        hurry, self._stopping = self._stopping, True
        limit = 0.0 if hurry else self._settings.shutdown_after.total_seconds()
        for process in self._processes:
            process.start_at = None
            if process.running:
                # By a word: a terminal or systemd may signal a process, too, so it cannot count signals.
                process.order("hurry") if hurry else process.signal(signal.SIGTERM)
                process.end_within(limit + _SPARE)
        self._check_now.set()

    def health(self, now: float) -> WorkerHealth:
        """How the processes are together, for probes. now: of the monotonic clock; may be called in any thread.

        A process that is dead or hung is replaced here; it is no reason to kill the others.
        """
        if self._ended:
            return WorkerHealth(WorkerPhase.DRAINED, 0, not_ready="it has finished draining")
        hung = self._signs.hung(now, HUNG_AFTER)
        if self._stopping:
            return WorkerHealth(WorkerPhase.DRAINING, hung=hung, not_ready="it drains")
        away = sum(process.live_worker is None for process in self._processes)
        if away:
            not_ready: str | None = f"{away} of {len(self._processes)} processes are not at work"
        else:
            not_ready = self._signs.unanswered(now, 3 * EVERY)
        phase = WorkerPhase.STARTING if self._signs.answered_at is None else WorkerPhase.RUNNING
        return WorkerHealth(phase, hung=hung, not_ready=not_ready)

    # --- the processes -----------------------------------------------------------------------------------------------

    def _check_processes(self) -> None:
        now = time.monotonic()
        # After a pause of the supervisor itself (stopped, suspended) no process counts as silent.
        paused, self._checked_at = now - self._checked_at > _GRACE, now
        self._signs.ticked_at = now
        for process in self._processes:
            if process.running:
                code = process.ended()
                if code is not None:
                    self._on_end(process, code)
                elif not process.kill_if_overdue():
                    self._check_alive(process, paused=paused)
            if not process.running and process.start_at is not None and process.start_at <= now:
                self._start(process)
        if not self._stopping:
            self._replace_one()

    def _start(self, process: WorkerProcess) -> None:
        try:
            process.start()
        except OSError as error:
            # No memory, or too many processes: the others go on, and there may be room again.
            process.start_at = time.monotonic() + _NO_ROOM
            logger.error("process %d cannot be started: %s (again in %g s)", process.number, error, _NO_ROOM)  # noqa: TRY400 - the system's answer, no defect
            return
        self._loop.add_reader(process.line, self._on_line, process)
        logger.info("process %d started (pid %d)", process.number, process.pid)

    def _on_line(self, process: WorkerProcess) -> None:
        known = process.worker_id
        if not process.receive():
            # The line is closed: most likely the process is dead, which poll() will see at once.
            self._loop.remove_reader(process.line)
            self._check_now.set()
        if process.replacement_reason or process.worker_id != known:
            self._check_now.set()

    def _check_alive(self, process: WorkerProcess, *, paused: bool) -> None:
        process.check_stopped()
        limit = self._settings.blocked_limit
        if not limit or process.worker_id is None:
            return
        if paused:
            process.alive_at = time.monotonic()
        silent = time.monotonic() - process.alive_at
        if silent > limit.total_seconds() or process.blocked > limit.total_seconds() + _GRACE:
            logger.error(
                "process %d (pid %d) has given no sign of life for %.0f s: it is killed and its jobs are rescued. "
                "A handler holds the interpreter; where, the process says itself:",
                process.number,
                process.pid,
                max(silent, process.blocked),
            )
            process.blocked, process.alive_at = 0.0, time.monotonic()
            process.abort()

    def _on_end(self, process: WorkerProcess, code: int) -> None:
        # Before it is closed: the next line may get the same descriptor, and the loop would know it already.
        self._loop.remove_reader(process.line)
        process.line.close()
        if process.worker_id is not None:
            self._dead[process.worker_id] = _RESCUES
            self._beat_now.set()
        ordered = self._stopping or process.end_reason == "drain"
        if ordered:
            logger.info("process %d ended %s", process.number, ending(code))
            return
        if code == RECYCLED and process.replacing:
            process.plan_restart(failed=False)
            return
        delay = process.plan_restart(failed=True)
        why = process.end_reason or (process.refusal[0] if process.refusal else ending(code))
        again = f", {process.failures} times in a row soon after its start" if process.failures > 1 else ""
        then = f"the next one starts in {delay:g} s" if delay else "another is started"
        logger.error("process %d ended%s: %s (%s)", process.number, again, why, then)

    def _refusal(self) -> tuple[str, int] | None:
        """Why no process can start, and the exit code for that; None: at least one can, or may the next time."""
        refusals = [process.refusal for process in self._processes if process.refusal is not None]
        return refusals[0] if len(refusals) == len(self._processes) and not self._stopping else None

    def _replace_one(self) -> None:
        """Have one process replaced that asks for it, when all others are at work: never all at the same moment."""
        if any(process.start_at is not None or (process.running and process.replacing) for process in self._processes):
            return
        if any(process.running and process.worker_id is None for process in self._processes):
            return
        for process in self._processes:
            if process.running and process.replacement_reason:
                process.replacing = True
                logger.info("process %d is replaced: %s", process.number, process.replacement_reason)
                process.order("recycle")
                process.end_within(self._settings.shutdown_after.total_seconds() + _SPARE)
                return

    # --- the database ------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Beat for all processes that live with one statement, and rescue the claims of those that do not."""
        outage = OutageLog(logger, "no beat for the processes", "the processes have a beat again")
        while True:
            try:
                living = [worker_id for process in self._processes if (worker_id := process.live_worker) is not None]
                if living:
                    await workers.vouch(self._database, living)
                    self._signs.answered_at = time.monotonic()
                await self._rescue_dead()
                outage.recovered()
            except (DatabaseError, TimeoutError, *TRANSIENT) as error:
                outage.failed(error)
            except Exception as error:  # noqa: BLE001 - the processes go on
                outage.failed(error, unforeseen=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._beat_now.wait()
            self._beat_now.clear()

    async def _rescue_dead(self) -> None:
        dead = list(self._dead)
        if not dead:
            return
        await self._rescue(dead)
        for worker_id in dead:
            self._dead[worker_id] -= 1
            if not self._dead[worker_id]:
                del self._dead[worker_id]
