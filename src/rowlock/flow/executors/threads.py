"""HandlerThreads: runs blocking handlers in threads, so that they do not block the loop.

A thread cannot be stopped: its handler is asked to stop, at its next call of the context.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from typing_extensions import override

from rowlock.flow.progress.sync_context import sync_context_of
from rowlock.flow.run.attempt import in_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.flow.run.attempt import RunningAttempt
    from rowlock.model.outcome import Outcome

Work = Callable[[], None]


def _call(function: Callable[[], object]) -> object:
    return function()


async def run_blocking(
    attempt: RunningAttempt,
    submit: Callable[[Work], None],
    calling: Callable[[Callable[[], object]], object] = _call,
) -> Outcome:
    """Run an attempt of a blocking handler. submit: passes work to a thread. calling: how that calls the function."""
    function, loop = attempt.handler.function, asyncio.get_running_loop()

    async def call(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        ended: asyncio.Future[object] = loop.create_future()
        submit(work_of(lambda: calling(lambda: function(*args, **kwargs)), ended))
        # Cancelled, it still waits for the function's end: the context asks the handler to stop, too.
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        return ended.result()

    return await in_process(attempt, call, lambda: sync_context_of(attempt.io, loop))


def work_of(function: Callable[[], object], ended: asyncio.Future[object]) -> Work:
    """The work of a thread: call the function and pass its value or exception to the loop."""
    context = contextvars.copy_context()
    loop = ended.get_loop()

    def settle(value: object, error: BaseException | None) -> None:
        if error is None:
            ended.set_result(value)
        else:
            ended.set_exception(error)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(function)
        except BaseException as error:  # noqa: BLE001 - the attempt decides the outcome
            failure = _for_future(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it any more
            loop.call_soon_threadsafe(settle, value, failure)

    return work


def _for_future(error: BaseException) -> BaseException:
    """The error as a future can hold it: StopIteration cannot be set on one."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("the handler raised StopIteration")
    wrapped.__cause__ = error
    return wrapped


class HandlerThreads:
    """Threads kept per lane and started when none is idle; the lane's slots limit their number.

    They are daemons: a handler that does not end must not keep the process from ending.
    """

    def __init__(self) -> None:
        self._idle: defaultdict[str, list[_WorkThread]] = defaultdict(list)

    async def run(self, attempt: RunningAttempt) -> Outcome:
        """Run an attempt of a blocking handler to its end."""
        lane = attempt.row["lane"]

        def submit(work: Work) -> None:
            try:
                thread = self._idle[lane].pop()
            except IndexError:
                thread = _WorkThread(lane, self._idle[lane].append)
            thread.submit(work)

        return await run_blocking(attempt, submit)

    def close(self) -> None:
        """End the idle threads."""
        for threads in self._idle.values():
            while threads:
                threads.pop().leave()


class _WorkThread(threading.Thread):
    """One thread, one piece of work at a time."""

    def __init__(self, lane: str, back: Callable[[_WorkThread], None]) -> None:
        super().__init__(name=f"rowlock-{lane}", daemon=True)
        self._back = back
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self.start()

    def submit(self, work: Work) -> None:
        """Have it do the work."""
        self._work.put(work)

    def leave(self) -> None:
        """End after the present work."""
        self._work.put(None)

    @override
    def run(self) -> None:
        """Work until leave() is called."""
        while (work := self._work.get()) is not None:
            work()
            self._back(self)
