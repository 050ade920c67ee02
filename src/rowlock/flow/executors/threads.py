"""Threads: where blocking handlers run, so that they do not hold up the loop. A thread cannot be stopped, only told."""

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

from rowlock.errors import Stopped
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.flow.run.attempt import in_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.flow.run.attempt import Attempt
    from rowlock.model.outcome import Outcome

Work = Callable[[], None]


def _plainly(function: Callable[[], object]) -> object:
    return function()


async def blocking(
    attempt: Attempt,
    submit: Callable[[Work], None],
    calling: Callable[[Callable[[], object]], object] = _plainly,
) -> Outcome:
    """Run an attempt of a blocking handler. submit: has a thread do the work; calling: how that calls the function."""
    function, loop = attempt.handler.function, asyncio.get_running_loop()

    async def call(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        ended: asyncio.Future[object] = loop.create_future()
        submit(work_of(lambda: calling(lambda: function(*args, **kwargs)), ended))
        # Told to stop, it still waits for the function's end: the context tells that, too.
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        return ended.result()

    return await in_process(attempt, call, lambda: SyncContext(attempt.context, loop))


def work_of(function: Callable[[], object], ended: asyncio.Future[object]) -> Work:
    """What a thread has to do: call the function and hand its value or exception to the loop."""
    around = contextvars.copy_context()
    loop = ended.get_loop()

    def settle(value: object, error: BaseException | None) -> None:
        if error is None:
            ended.set_result(value)
        else:
            ended.set_exception(error)

    def work() -> None:
        value, failure = None, None
        try:
            value = around.run(function)
        except BaseException as error:  # noqa: BLE001 - the attempt judges it
            failure = _bearable(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    return work


def _bearable(error: BaseException) -> BaseException:
    """StopIteration cannot pass a future, and a handler's KeyboardInterrupt is no signal to the worker."""
    judged = isinstance(error, (Exception, SystemExit, Stopped, asyncio.CancelledError))
    if judged and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"the handler raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


class Threads:
    """Threads kept per lane, started when a job finds none idle: the lane's slots bound their number.

    They are daemons: a handler that will not end must not keep the process from ending.
    """

    def __init__(self) -> None:
        self._idle: defaultdict[str, list[_Thread]] = defaultdict(list)

    async def run(self, attempt: Attempt) -> Outcome:
        """Run an attempt of a blocking handler to its end."""
        lane = attempt.row["lane"]

        def submit(work: Work) -> None:
            try:
                thread = self._idle[lane].pop()
            except IndexError:
                thread = _Thread(lane, self._idle[lane].append)
            thread.give(work)

        return await blocking(attempt, submit)

    def close(self) -> None:
        """Let idle threads end."""
        for threads in self._idle.values():
            while threads:
                threads.pop().leave()


class _Thread(threading.Thread):
    """One thread, one piece of work at a time."""

    def __init__(self, lane: str, back: Callable[[_Thread], None]) -> None:
        super().__init__(name=f"rowlock-{lane}", daemon=True)
        self._back = back
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self.start()

    def give(self, work: Work) -> None:
        """Have it do the work."""
        self._work.put(work)

    def leave(self) -> None:
        """End after the present work."""
        self._work.put(None)

    @override
    def run(self) -> None:
        """Work until told to leave."""
        while (work := self._work.get()) is not None:
            work()
            self._back(self)
