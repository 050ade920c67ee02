"""Parent: the worker's end of the talk with one child process. Imported with the first child: few workers have any."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

from rowlock.errors import ClaimLost, RowlockError
from rowlock.flow.executors.child_locks import Lender
from rowlock.flow.executors.child_messages import (
    Answer,
    Asked,
    Broken,
    Ended,
    Grows,
    Hello,
    Locking,
    Logged,
    Message,
    Ready,
    Reported,
    Run,
    Stop,
    Unlocking,
    packed,
    receive,
)
from rowlock.flow.executors.os_process import ending, resident
from rowlock.flow.kinds.import_origin import module_of
from rowlock.model.outcome import Lost
from rowlock.model.size import shown

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Coroutine

    from rowlock.flow.executors.process_pool import Terms
    from rowlock.flow.run.attempt import Attempt
    from rowlock.model.outcome import Outcome

_WATCH_EVERY: Final = 0.1
_START_WITHIN: Final = 60.0
_IDLE_FOR: Final = 60.0
_LEAVES_WITHIN: Final = 2.0
_GONE_OVER: Final = asyncio.IncompleteReadError, ConnectionError


class Child:
    """One child process and the talk with it."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._dead: asyncio.Task[int] | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._jobs = 0
        self._told = False
        self._answers: set[asyncio.Future[None]] = set()

    async def start(self, hello: Hello) -> None:
        """Start the process and wait until it has imported the application; RowlockError when it cannot."""
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
                # A group of its own: what a handler starts can be ended with it, and Ctrl-C reaches only the worker.
                start_new_session=True,
                # An application that starts a worker when it is imported must not do so here.
                env={**os.environ, "ROWLOCK_WORKER": "off"},
            )
        self._dead = asyncio.ensure_future(self._process.wait())
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._say(hello)
        try:
            async with asyncio.timeout(_START_WITHIN):
                while True:
                    match await receive(self._reader):
                        case Ready():
                            return
                        case Broken(why):
                            raise RowlockError(_cannot_start(hello, why))
                        case Logged() as logged:
                            logged.emit()
                        case other:
                            raise TypeError(other)
        except TimeoutError:
            raise RowlockError(_cannot_start(hello, f"no answer within {_START_WITHIN:g} s")) from None
        except _GONE_OVER:
            raise RowlockError(_cannot_start(hello, f"it ended {ending(await self._dead)}")) from None

    async def run(self, attempt: Attempt, terms: Terms) -> Outcome:
        """Run one attempt to its end: the child's answer, or what its death means."""
        self._jobs += 1
        kind = attempt.handler.kind
        module = module_of(attempt.handler.function.__module__) or ""
        self._say(Run(dict(attempt.row.items()), module, kind.memory))  # type: ignore[attr-defined]  # a record or a dict
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(kind.timeout.total_seconds(), attempt.stop, "timeout")] if kind.timeout else []
        watching = asyncio.ensure_future(self._watch(kind.memory)) if kind.memory else None
        self._lender = Lender(lambda: attempt.context.line.locks, self._say)
        try:
            outcome = await self._outcome(attempt, terms)
        finally:
            self._begin(self._lender.close())
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
        return attempt.verdict.died(f"the child process ended {ending(code)}", terms.max_deaths)

    async def _outcome(self, attempt: Attempt, terms: Terms) -> Outcome | None:
        """The child's answer; None: it died, or was killed because it would not stop."""
        talking = asyncio.ensure_future(self._talk(attempt))
        kill_at: float | None = None
        loop = asyncio.get_running_loop()
        while not talking.done():
            try:
                left = None if kill_at is None else max(0.0, kill_at - loop.time())
                await asyncio.wait({talking}, timeout=left)
                if not talking.done():
                    self.kill()
                    kill_at = None
            except asyncio.CancelledError:
                # attempt.stop() cancels this task: the handler is told, and has so long to end by itself.
                self._told = True
                self._say(Stop(attempt.reason or "shutdown"))
                kill_at = kill_at or loop.time() + terms.patience
        return talking.result()

    async def _talk(self, attempt: Attempt) -> Outcome | None:
        try:
            while True:
                message = await receive(self._reader)
                if isinstance(message, Ended):
                    return message.outcome
                if isinstance(message, Broken):
                    self._told = True
                    return attempt.raised(RowlockError(message.why))
                self._hear(message, attempt)
        except _GONE_OVER:
            return None

    def _hear(self, message: Message, attempt: Attempt) -> None:
        match message:
            case Reported(news):
                with contextlib.suppress(ClaimLost):  # it is told by other ways, too
                    attempt.context.adopt(news)
            case Asked() | Grows():
                self._begin(self._answer(message, attempt))
            case Locking() | Unlocking():
                self._begin(self._lender.hear(message))
            case Logged():
                message.emit()
            case _:
                raise TypeError(message)

    def _begin(self, answer: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(answer)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, asked: Asked | Grows, attempt: Attempt) -> None:
        value: object = None
        failure: Exception | None = None
        try:
            context = attempt.context
            value = await (context.answer(asked) if isinstance(asked, Asked) else context.grown(asked.growing))
        except RowlockError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - the handler hears of it, whatever it was
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        self._say(Answer(asked.number, value, failure))

    async def _watch(self, limit: int) -> MemoryError:
        """Kill the child when it takes more than it may."""
        while (used := resident(self._pid)) is None or used <= limit:  # noqa: ASYNC110 - the kernel sends no event
            await asyncio.sleep(_WATCH_EVERY)
        self.kill()
        return MemoryError(f"the job used {shown(used)} of memory; its limit is {shown(limit)}")

    def usable(self, terms: Terms) -> bool:
        """Whether it may run another job: it lives, was never told to stop and has not grown too old or too large."""
        if not self.alive or self._told or self._jobs >= terms.jobs:
            return False
        return terms.memory is None or (resident(self._pid) or 0) <= terms.memory

    def rest(self, idle: list[Child]) -> None:
        """Wait among the idle ones for the next job, for a while."""

        def too_long() -> None:
            if self in idle:
                idle.remove(self)
                self.leave()

        idle.append(self)
        self._resting = asyncio.get_running_loop().call_later(_IDLE_FOR, too_long)

    def wake(self) -> bool:
        """Stop resting; False: it died meanwhile."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        return self.alive

    def leave(self) -> None:
        """Have it end: a closed pipe is the word for it. What does not hear, or was stopped at its work, is killed."""
        self._writer.close()
        if self._told or not self.alive:
            self.kill()
        else:
            asyncio.get_running_loop().call_later(_LEAVES_WITHIN, self._insist)

    def _insist(self) -> None:
        if self.alive:
            self.kill()

    def kill(self) -> None:
        """End it and whatever it started, now: its group outlives it as long as one of them lives."""
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

    def _say(self, message: Message) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):  # it is dead: that is noticed where it matters
            self._writer.write(packed(message))


def _cannot_start(hello: Hello, why: str) -> str:
    return (
        f"A child process cannot import the application {hello.origin.module}:{hello.origin.attribute}: {why}. "
        "Its module must be importable from the worker's folder without side effects."
    )
