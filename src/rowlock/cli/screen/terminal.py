"""The terminal taken over for a while: another screen, single keys, and everything as it was afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# The other screen without a cursor; and back. Wrapping stays off meanwhile: a full last line must not scroll.
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l\x1b[0m"
_NAMED: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[Z": "back tab",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x0c": "redraw",
}
_KEY: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO.|\x1b|.", re.DOTALL)


def keys(text: str) -> list[str]:
    """The keys behind what a terminal sent; sequences nobody knows are dropped, so that none is taken for letters."""
    found = [_NAMED.get(part, part) for part in _KEY.findall(text)]
    return [key for key in found if key in _NAMED.values() or (len(key) == 1 and key.isprintable())]


class Terminal:
    """Draws lines on the whole screen and hears keys, resizes and Ctrl-Z."""

    def __init__(self, on_key: Callable[[str], None], on_change: Callable[[], None]) -> None:
        """on_change: the size is another one, or the picture is gone and has to be drawn again."""
        self._on_key, self._on_change = on_key, on_change
        self._in, self._drawn = sys.stdin.fileno(), list[str]()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        # Not what COLUMNS says: that is the size at the start.
        columns, lines = os.get_terminal_size(self._in)
        return max(20, columns), max(4, lines)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Take the terminal over until the end of the block, however it ends."""
        loop = asyncio.get_running_loop()
        self._before = termios.tcgetattr(self._in)
        self._enter()
        loop.add_reader(self._in, self._read)
        loop.add_signal_handler(signal.SIGWINCH, self.forget)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        try:
            yield
        finally:
            loop.remove_reader(self._in)
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_signal_handler(signal.SIGTSTP)
            self._leave()

    def draw(self, lines: Sequence[str]) -> None:
        """Show the lines, as many as the screen has; only those that changed are sent, for the sake of slow links."""
        changed = [
            # Erased first: behind a full line the cursor still stands on its last character.
            f"\x1b[{n};1H\x1b[K{line}\x1b[0m"
            for n, line in enumerate(lines, 1)
            if n > len(self._drawn) or self._drawn[n - 1] != line
        ]
        self._drawn = list(lines)
        self._write("".join(changed))

    def forget(self) -> None:
        """Draw everything anew next time."""
        # Not by clearing the screen, which would flicker: every line is sent again, and erased before.
        self._drawn = []
        self._on_change()

    def _enter(self) -> None:
        # Ctrl-C and Ctrl-Z stay signals.
        tty.setcbreak(self._in, termios.TCSADRAIN)
        self._write(_ENTER)

    def _leave(self) -> None:
        with contextlib.suppress(OSError):  # a terminal that was closed has nothing to be restored
            self._write(_LEAVE)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)

    def _suspend(self) -> None:
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()
        self.forget()

    def _read(self) -> None:
        try:
            sent = os.read(self._in, 1024)
        except OSError:
            sent = b""
        if not sent:
            # Nobody sits there any more.
            asyncio.get_running_loop().remove_reader(self._in)
            self._on_key("q")
        for key in keys(sent.decode(errors="ignore")):
            self._on_key(key)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
