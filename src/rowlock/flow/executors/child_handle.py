"""ChildProcess: the worker's side of one child process. Imported with the first child: few workers have any."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from rowlock.errors import ClaimLost, RowlockError
from rowlock.flow.executors.child_locks import ChildLockServer
from rowlock.flow.executors.child_messages import (
    AcquireLock,
    AddSteps,
    AttemptEnded,
    ChildFailed,
    ChildReady,
    ForwardedLog,
    KeepItems,
    LoadCheckpoint,
    LoadCursors,
    ProgressSnapshot,
    ReadSignal,
    ReadStepName,
    ReleaseLock,
    Reply,
    RunJob,
    SaveReport,
    StopJob,
    pack_for_child,
)
from rowlock.flow.executors.message_data import UnreadableMessage, receive_from_child
from rowlock.flow.executors.os_process import ending, resident
from rowlock.flow.kinds.import_origin import module_of
from rowlock.model.outcome import Lost
from rowlock.model.size import shown

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Coroutine

    from rowlock.flow.executors.child_limits import ChildLimits
    from rowlock.flow.executors.child_messages import ChannelRequest, StartChild, ToChild, ToWorker
    from rowlock.flow.progress.attempt_io import AttemptIO
    from rowlock.flow.run.attempt import RunningAttempt
    from rowlock.model.outcome import Outcome

_WATCH_EVERY: Final = 0.1
"""Seconds between two looks at the memory of a child with a limit."""
_START_WITHIN: Final = 60.0
_IDLE_FOR: Final = 60.0
_LEAVES_WITHIN: Final = 2.0
"""Seconds from the closed pipe until a child that has not ended is killed."""
_GONE: Final = asyncio.IncompleteReadError, ConnectionError


class ChildProcess:
    """One child process and the conversation with it."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._dead: asyncio.Task[int] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._jobs = 0
        self._stop_sent = False
        self._replies: set[asyncio.Future[None]] = set()

    async def start(self, setup: StartChild) -> None:
        """Start the process and wait until it has imported the application; RowlockError if it cannot."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "rowlock.flow.executors.child_main",
                str(theirs.fileno()),
                str(os.getpid()),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                # A process group of its own: kill() ends all that its handlers start, and Ctrl-C does not reach it.
                start_new_session=True,
                # An application that starts a worker when it is imported must not do so here.
                env={**os.environ, "ROWLOCK_WORKER": "off"},
            )
        self._dead = asyncio.ensure_future(self._process.wait())
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._send(setup)
        try:
            async with asyncio.timeout(_START_WITHIN):
                while True:
                    match await receive_from_child(self._reader):
                        case ChildReady():
                            return
                        case ChildFailed(why):
                            raise RowlockError(_cannot_start(setup, why))
                        case ForwardedLog() as log:
                            log.emit()
                        case other:
                            raise TypeError(other)
        except TimeoutError:
            raise RowlockError(_cannot_start(setup, f"no answer within {_START_WITHIN:g} s")) from None
        except _GONE:
            raise RowlockError(_cannot_start(setup, f"it ended {ending(await self._dead)}")) from None

    async def run(self, attempt: RunningAttempt, limits: ChildLimits) -> Outcome:
        """Run one attempt: its outcome is the child's, or what the child's death means."""
        self._jobs += 1
        kind = attempt.handler.kind
        module = module_of(attempt.handler.function.__module__) or ""
        self._send(RunJob(dict(attempt.row.items()), module, kind.memory))  # type: ignore[attr-defined]  # a record or a dict
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(kind.timeout.total_seconds(), attempt.stop, "timeout")] if kind.timeout else []
        watching = asyncio.ensure_future(self._watch(kind.memory)) if kind.memory else None
        self._locks = ChildLockServer(lambda: attempt.io.channel.locks, self._send)
        try:
            outcome = await self._outcome(attempt, limits)
        finally:
            self._spawn(self._locks.close())
            for timer in timers:
                timer.cancel()
            if watching is not None:
                watching.cancel()
        if attempt.reason == "lost":
            return Lost()
        if outcome is not None:
            return outcome
        code = await self._dead if self._dead is not None else 0
        if attempt.reason is not None:
            return attempt.stopped()
        if watching is not None and watching.done() and not watching.cancelled():
            return attempt.verdict.raised(watching.result())
        return attempt.verdict.died(f"the child process ended {ending(code)}", limits.max_deaths)

    async def _outcome(self, attempt: RunningAttempt, limits: ChildLimits) -> Outcome | None:
        """The outcome the child sent; None: it died, or was killed because it did not stop."""
        conversation = asyncio.ensure_future(self._converse(attempt))
        kill_at: float | None = None
        loop = asyncio.get_running_loop()
        while not conversation.done():
            try:
                left = None if kill_at is None else max(0.0, kill_at - loop.time())
                await asyncio.wait({conversation}, timeout=left)
                if not conversation.done():
                    self.kill()
                    kill_at = None
            except asyncio.CancelledError:
                # attempt.stop() cancels this task: the child is asked to stop, and has so long to end by itself.
                self._stop_sent = True
                self._send(StopJob(attempt.reason or "shutdown"))
                kill_at = kill_at or loop.time() + limits.patience
        return conversation.result()

    async def _converse(self, attempt: RunningAttempt) -> Outcome | None:
        try:
            while True:
                message = await receive_from_child(self._reader)
                if isinstance(message, AttemptEnded):
                    return message.outcome
                if isinstance(message, ChildFailed):
                    self._stop_sent = True
                    return attempt.raised(RowlockError(message.why))
                self._receive(message, attempt)
        except _GONE:
            return None
        except UnreadableMessage as error:
            self.kill()
            return attempt.raised(error)

    def _receive(self, message: ToWorker, attempt: RunningAttempt) -> None:
        match message:
            case ProgressSnapshot(snapshot):
                with contextlib.suppress(ClaimLost):  # the attempt is stopped for that reason anyway
                    attempt.io.merge(snapshot)
            case AcquireLock() | ReleaseLock():
                self._spawn(self._locks.serve(message))
            case ForwardedLog():
                message.emit()
            case (
                SaveReport()
                | LoadCheckpoint()
                | LoadCursors()
                | KeepItems()
                | ReadSignal()
                | ReadStepName()
                | AddSteps()
            ):
                self._spawn(self._reply(message, attempt))
            case _:
                raise TypeError(message)

    def _spawn(self, reply: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(reply)
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    async def _reply(self, request: ChannelRequest, attempt: RunningAttempt) -> None:
        value: object = None
        failure: Exception | None = None
        try:
            value = await _served(request, attempt.io)
        except RowlockError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - raised in the handler's call, in the child
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        self._send(Reply(request.number, value, failure))

    async def _watch(self, limit: int) -> MemoryError:
        """Kill the child when it uses more memory than its limit."""
        while (used := resident(self._pid)) is None or used <= limit:  # noqa: ASYNC110 - the kernel sends no event
            await asyncio.sleep(_WATCH_EVERY)
        self.kill()
        return MemoryError(f"the job used {shown(used)} of memory; its limit is {shown(limit)}")

    def usable(self, limits: ChildLimits) -> bool:
        """Whether it may run another job: it lives, was never asked to stop and is within its limits."""
        if not self.alive or self._stop_sent or self._jobs >= limits.jobs:
            return False
        return limits.memory is None or (resident(self._pid) or 0) <= limits.memory

    def rest(self, idle: list[ChildProcess]) -> None:
        """Join the idle children, to end after a while without a job."""

        def too_long() -> None:
            if self in idle:
                idle.remove(self)
                self.leave()

        idle.append(self)
        self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_FOR, too_long)

    def wake(self) -> bool:
        """Stop being idle; False: it died meanwhile."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        return self.alive

    def leave(self) -> None:
        """Have it end, by closing the pipe; one that does not end, or was asked to stop a job, is killed."""
        self._writer.close()
        if self._stop_sent or not self.alive:
            self.kill()
        else:
            asyncio.get_running_loop().call_later(_LEAVES_WITHIN, self._kill_if_alive)

    def _kill_if_alive(self) -> None:
        if self.alive:
            self.kill()

    def kill(self) -> None:
        """Kill it and everything it started: its process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    async def ended(self) -> None:
        """Wait until the process is gone."""
        if self._dead is not None:
            await self._dead
            self._writer.close()

    @property
    def alive(self) -> bool:
        """Whether the process runs, as far as known."""
        return self._dead is None or not self._dead.done()

    @property
    def _pid(self) -> int:
        assert self._process is not None  # noqa: S101 - started
        return self._process.pid

    def _send(self, message: ToChild) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):  # it is dead, which _converse() notices
            self._writer.write(pack_for_child(message))


async def _served(request: ChannelRequest, io: AttemptIO) -> object:  # noqa: PLR0911 - one return per request
    """Do what a child asks on behalf of its attempt; returns the value of the reply."""
    match request:
        case SaveReport():
            await io.save_checkpoint(request.checkpoint)
            return None
        case LoadCheckpoint():
            return await io.channel.load_checkpoint(io.claim)
        case LoadCursors():
            return await io.channel.load_cursors(io.claim)
        case KeepItems():
            return sorted(await io.keep_items(request.phase, resume=request.resume))
        case ReadSignal():
            return await io.channel.read_signal(io.claim, request.name)
        case ReadStepName():
            return await io.channel.step_name(io.claim)
        case AddSteps():
            # Under the claim this worker knows the attempt by.
            growing = replace(request.growing, job=io.claim.job_id, fence=io.claim.fence)
            return await io.channel.grow(None, growing)
        case _:
            assert_never(request)


def _cannot_start(setup: StartChild, why: str) -> str:
    return (
        f"A child process cannot import the application {setup.origin.module}:{setup.origin.attribute}: {why}. "
        "Its module must be importable from the worker's folder without side effects."
    )
