"""Logs: the records that handlers log, by ctx.log or by logging, kept with their job.

Records are met where they are made, not in a handler of the root logger: adding one would change what logging does for
programs that have set up none. A program that logs nothing inside its jobs pays nothing.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rowlock.flow.progress.report import LOG_LINES
from rowlock.model.progress import LOGS_OFF
from rowlock.telemetry import CURRENT

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rowlock.store.rows.jobs import Row

_LONGEST: Final = 8000
"""Characters of a line."""
_FORMAT: Final = logging.Formatter()


class Said(NamedTuple):
    """A record in words. at: time.monotonic()."""

    level: int
    logger: str
    text: str
    at: float


class Hearer(Protocol):
    """Whoever keeps what a job said: its attempt or its context."""

    def hear(self, said: Said) -> None:
        """Keep it; on the loop."""


class Spoken(Hearer, Protocol):
    """An attempt whose records are looked at. log_level: below it nothing is kept."""

    @property
    def log_level(self) -> int:
        """The level of its kind, or the worker's."""


class LogBook:
    """Brings records from whatever thread to the loop of the attempts they belong to."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, level: int = LOGS_OFF, find: Callable[[Row], Spoken | None] | None = None
    ) -> None:
        """find: the attempt of a claimed row, if it runs here; level: of kinds that say nothing."""
        self.level = level
        self._loop, self._find = loop, find
        self.waiting: deque[tuple[Hearer, Said]] = deque(maxlen=2 * LOG_LINES)
        self._called = False

    def open(self) -> None:
        """Look at the records of this process from now on."""
        _BOOKS.append(self)
        if _Factory.before is None:
            _Factory.before = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_made)

    def close(self) -> None:
        """Look no more."""
        if self in _BOOKS:
            _BOOKS.remove(self)
        if not _BOOKS and _Factory.before is not None and logging.getLogRecordFactory() is _made:
            logging.setLogRecordFactory(_Factory.before)
            _Factory.before = None

    def meet(self, row: Row, record: logging.LogRecord) -> None:
        """A record was made inside a job's handler; in any thread."""
        attempt = self._find(row) if self._find is not None else None
        if attempt is not None and record.levelno >= attempt.log_level:
            self.add(attempt, said(record))

    def add(self, hearer: Hearer, words: Said) -> None:
        """Bring it to the loop; in any thread."""
        self.waiting.append((hearer, words))
        if not self._called:
            self._called = True
            try:
                self._loop.call_soon_threadsafe(self.drain)
            except RuntimeError:
                # The loop is closed: the job was returned over the handler's head.
                self.waiting.clear()

    def drain(self) -> None:
        """Hand everything to those it belongs to; on the loop."""
        self._called = False
        while self.waiting:
            hearer, words = self.waiting.popleft()
            hearer.hear(words)


_BOOKS: Final[list[LogBook]] = []


class _Factory:
    """The record factory that was there before ours."""

    before: Callable[..., logging.LogRecord] | None = None


def _made(*args: Any, **kwargs: Any) -> logging.LogRecord:  # noqa: ANN401 - a record factory's
    record = (_Factory.before or logging.LogRecord)(*args, **kwargs)
    row = CURRENT.get()
    # Rowlock's own records are not the job's, and ctx.log keeps its own; makeLogRecord() has no name yet.
    if row is not None and record.name and not record.name.startswith("rowlock."):
        for book in tuple(_BOOKS):
            book.meet(row, record)
    return record


def said(record: logging.LogRecord) -> Said:
    """A record in words, its traceback included."""
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - as logging itself: a bad format must not fail the handler
        text = f"{record.msg!r} % {record.args!r}"
    if record.exc_info and record.exc_info[0] is not None:
        text = f"{text}\n{_FORMAT.formatException(record.exc_info)}"
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[:half]}\n… {len(text) - _LONGEST:,} characters left out …\n{text[-half:]}"
    return Said(record.levelno, record.name, text, time.monotonic())


def record_of(name: str, level: int, message: object, args: tuple[Any, ...], exc_info: Any) -> logging.LogRecord:  # noqa: ANN401 - logging's own
    """A record as a logger would make it, outside of logging."""
    if isinstance(exc_info, BaseException):
        exc_info = type(exc_info), exc_info, exc_info.__traceback__
    elif exc_info and not isinstance(exc_info, tuple):
        exc_info = sys.exc_info()
    return logging.LogRecord(name, level, "", 0, message, args, exc_info or None)
