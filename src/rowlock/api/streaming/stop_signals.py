"""StopSignals: hears that the host's server is told to stop, before that server waits for open streams."""

from __future__ import annotations

import functools
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Calls back at SIGTERM and SIGINT, and then the handler that was there before.

    Servers such as uvicorn, hypercorn and gunicorn handle these signals themselves and then wait for open connections.
    An event loop's own signal handlers do not depend on the handler that Python calls, so they run too.
    """

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._installed: dict[signal.Signals, Callable[[int, FrameType | None], object]] = {}

    def watch(self) -> bool:
        """Step before the handlers of now; False: not in the main thread, where alone that is possible."""
        if threading.current_thread() is not threading.main_thread():
            return False
        for number in _STOPPING:
            before = signal.getsignal(number)
            # Neither SIG_DFL, which ends the process at once, nor SIG_IGN, nor a handler that is not Python's.
            if callable(before) and before is not self._installed.get(number):
                self._installed[number] = handler = functools.partial(self._heard, before)
                signal.signal(number, handler)
        return True

    def _heard(self, before: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None) -> None:
        self._callback()
        before(number, frame)

    def leave(self) -> None:
        """Put the handlers of before back, unless others have stepped before ours since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._installed.items():
            if signal.getsignal(number) is handler and isinstance(handler, functools.partial):
                signal.signal(number, handler.args[0])
        self._installed.clear()
