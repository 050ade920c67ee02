"""Terminal: full-screen drawing and single keys, with the terminal restored afterwards."""

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

# Switch to the alternate screen without cursor, and back. No wrapping: a full last line must not scroll.
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
    """The keys that a terminal sent; unknown escape sequences are dropped, so that none passes for letters."""
    found = [_NAMED.get(part, part) for part in _KEY.findall(text)]
    return [key for key in found if key in _NAMED.values() or (len(key) == 1 and key.isprintable())]


class Terminal:
    """Draws lines on the whole screen, and handles keys, resizes and Ctrl-Z."""

    def __init__(self, on_key: Callable[[str], None], on_change: Callable[[], None]) -> None:
        """on_change: called when the size changed or the screen has to be drawn again."""
        self._on_key, self._on_change = on_key, on_change
        self._in, self._drawn = sys.stdin.fileno(), list[str]()

    @property
    def size(self) -> tuple[int, int]:
        """The current number of columns and lines."""
        # COLUMNS is the size at the start.
        columns, lines = os.get_terminal_size(self._in)
        return max(20, columns), max(4, lines)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Use the whole screen until the end of the block, however it ends."""
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
        """Show as many lines as fit; only changed lines are sent, for slow links."""
        changed = [
            # Erase first: after a full line the cursor still stands on its last character.
            f"\x1b[{n};1H\x1b[K{line}\x1b[0m"
            for n, line in enumerate(lines, 1)
            if n > len(self._drawn) or self._drawn[n - 1] != line
        ]
        self._drawn = list(lines)
        self._write("".join(changed))

    def forget(self) -> None:
        """Send every line at the next draw."""
        # Clearing the screen would flicker: every line is erased and sent again instead.
        self._drawn = []
        self._on_change()

    def _enter(self) -> None:
        # Ctrl-C and Ctrl-Z stay signals.
        tty.setcbreak(self._in, termios.TCSADRAIN)
        self._write(_ENTER)

    def _leave(self) -> None:
        with contextlib.suppress(OSError):  # a closed terminal cannot be restored
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
            # The terminal was closed.
            asyncio.get_running_loop().remove_reader(self._in)
            self._on_key("q")
        for key in keys(sent.decode(errors="ignore")):
            self._on_key(key)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
