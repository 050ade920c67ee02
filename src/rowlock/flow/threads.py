"""Threads: where blocking handlers run, so that they do not hold up the loop. A thread cannot be stopped, only told."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from typing_extensions import override

from rowlock.errors import Stopped
from rowlock.flow.blocking import SyncContext
from rowlock.flow.run import in_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.flow.run import Attempt
    from rowlock.model.outcome import Outcome


class Threads:
    """Threads kept per lane, started when a job finds none idle: the lane's slots bound their number.

    They are daemons: a handler that will not end must not keep the process from ending.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: defaultdict[str, list[_Thread]] = defaultdict(list)

    async def run(self, attempt: Attempt) -> Outcome:
        """Run an attempt of a blocking handler to its end."""
        function, lane = attempt.handler.function, attempt.row["lane"]

        async def call(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
            return await self.call(lane, lambda: function(*args, **kwargs))

        return await in_process(attempt, call, SyncContext(attempt.context, self._loop))

    async def call(self, lane: str, function: Callable[[], object]) -> object:
        """Call the function in a thread and wait for its end, also when told to stop: the context tells it."""
        ended: asyncio.Future[object] = self._loop.create_future()
        thread = self._idle[lane].pop() if self._idle[lane] else _Thread(lane, self._back)
        thread.give(function, ended)
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        return ended.result()

    def _back(self, thread: _Thread) -> None:
        self._idle[thread.lane].append(thread)

    def close(self) -> None:
        """Let idle threads end."""
        for threads in self._idle.values():
            for thread in threads:
                thread.leave()
        self._idle.clear()


class _Thread(threading.Thread):
    """One thread, one function at a time."""

    def __init__(self, lane: str, back: Callable[[_Thread], None]) -> None:
        super().__init__(name=f"rowlock-{lane}", daemon=True)
        self.lane, self._back = lane, back
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.start()

    def give(self, function: Callable[[], object], ended: asyncio.Future[object]) -> None:
        """Have it call the function; `ended` gets the value or the exception."""
        around = contextvars.copy_context()
        loop = ended.get_loop()

        def settle(value: object, error: BaseException | None) -> None:
            self._back(self)
            if error is None:
                ended.set_result(value)
            else:
                ended.set_exception(error)

        def work() -> None:
            value, failure = None, None
            try:
                value = around.run(function)
            except (Exception, SystemExit, Stopped, asyncio.CancelledError) as error:  # noqa: BLE001 - the attempt judges it
                failure = _bearable(error)
            except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt raised by a handler is no signal to us
                failure = _wrapped(error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, value, failure)

        self._work.put(work)

    def leave(self) -> None:
        """End after the present work."""
        self._work.put(None)

    @override
    def run(self) -> None:
        """Work until told to leave."""
        while (work := self._work.get()) is not None:
            work()


def _bearable(error: BaseException) -> BaseException:
    """StopIteration cannot pass a future."""
    return _wrapped(error) if isinstance(error, StopIteration) else error


def _wrapped(error: BaseException) -> RuntimeError:
    wrapped = RuntimeError(f"the handler raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped
