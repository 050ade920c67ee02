"""StopSignals: hears that the host's server is told to stop, before that server waits for open streams."""

from __future__ import annotations

import signal
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
_ASYNCIO: Final = "asyncio.runners"


class StopSignals:
    """Calls back at SIGTERM and SIGINT, and then the handler that was there before.

    Servers such as uvicorn, hypercorn and gunicorn handle these signals themselves and then wait for open connections.
    An event loop's own signal handlers do not depend on the handler that Python calls, so they run too.
    """

    def __init__(self, callback: Callable[[], object]) -> None:
        """callback: a bound method, whose object is not kept alive by the handler."""
        self._callback = weakref.WeakMethod(callback)
        self._installed: dict[signal.Signals, _ChainedHandler] = {}

    def watch(self) -> bool:
        """Step before the handlers of now; False: not in the main thread, where alone that is possible."""
        if threading.current_thread() is not threading.main_thread():
            return False
        for number in _STOPPING:
            found = signal.getsignal(number)
            if found is not self._installed.get(number) and (before := _server_of(found)) is not None:
                self._installed[number] = handler = _ChainedHandler(self._callback, before)
                signal.signal(number, handler)
        return True

    def leave(self) -> None:
        """Put the handlers of before back, unless others have stepped before ours since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, ours in self._installed.items():
            now: object = signal.getsignal(number)
            if now is ours:
                signal.signal(number, ours.before)
        self._installed.clear()


@dataclass(eq=False, slots=True)
class _ChainedHandler:
    """The handler of one StopSignals, and the one that it calls next."""

    callback: weakref.WeakMethod[Callable[[], object]]
    before: Handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if (callback := self.callback()) is not None:
            callback()
        self.before(number, frame)


def _server_of(handler: object) -> Handler | None:
    """The handler to call after ours; None: none of a server.

    Neither SIG_DFL, which ends the process at once, nor SIG_IGN, nor one that is not Python's; nor what Python itself
    does at Ctrl-C. A chained handler of an API that is gone is left out.
    """
    while isinstance(handler, _ChainedHandler) and handler.callback() is None:
        handler = handler.before
    if not callable(handler) or handler is signal.default_int_handler:
        return None
    return None if getattr(getattr(handler, "func", handler), "__module__", "") == _ASYNCIO else handler
