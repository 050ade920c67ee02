"""JobLogCapture: stores what handlers log, through ctx.log or through `logging`, with their job.

Records are caught where they are created, in the record factory. A handler on the root logger would change how logging
behaves in programs that have not configured it. Programs that log nothing inside their jobs pay nothing.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rowlock.flow.progress.report import LOG_LINES
from rowlock.model import redact
from rowlock.model.progress import LOGS_OFF
from rowlock.model.redact import SECRET
from rowlock.telemetry import CURRENT

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rowlock.store.rows.jobs import Row

_LONGEST: Final = 8000
"""Characters of one line; longer ones are cut in the middle."""
_FORMATTER: Final = logging.Formatter()


class CapturedRecord(NamedTuple):
    """A formatted log record. at: time.monotonic()."""

    level: int
    logger: str
    text: str
    at: float


class LogSink(Protocol):
    """Stores captured records with one job."""

    def add_log(self, record: CapturedRecord) -> None:
        """Store it; called on the event loop."""


class LeveledLogSink(LogSink, Protocol):
    """A sink with a minimum level."""

    @property
    def log_level(self) -> int:
        """The kind's level, or else the worker's; records below it are not stored."""


class JobLogCapture:
    """Moves records from any thread to the event loop of the attempt they belong to."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        level: int = LOGS_OFF,
        find: Callable[[Row], LeveledLogSink | None] | None = None,
    ) -> None:
        """level: of kinds that set none. find: the attempt of a claimed row; None: it does not run in this process."""
        self.level = level
        self._loop, self._find = loop, find
        self.pending: deque[tuple[LogSink, CapturedRecord]] = deque(maxlen=2 * LOG_LINES)
        """Records on their way to the loop."""
        self._drain_scheduled = False

    def open(self) -> None:
        """Begin to capture the records of this process."""
        _CAPTURES.append(self)
        if _Factory.original is None:
            _Factory.original = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_capturing_factory)

    def close(self) -> None:
        """Stop capturing; the last one restores the record factory."""
        if self in _CAPTURES:
            _CAPTURES.remove(self)
        if not _CAPTURES and _Factory.original is not None and logging.getLogRecordFactory() is _capturing_factory:
            logging.setLogRecordFactory(_Factory.original)
            _Factory.original = None

    def capture(self, row: Row, record: logging.LogRecord) -> None:
        """Store a record that was created inside the handler of this job; called in any thread."""
        attempt = self._find(row) if self._find is not None else None
        if attempt is not None and record.levelno >= attempt.log_level:
            self.add(attempt, captured(record))

    def add(self, sink: LogSink, record: CapturedRecord) -> None:
        """Hand a record to its sink, on the loop; called in any thread."""
        self.pending.append((sink, record))
        if not self._drain_scheduled:
            self._drain_scheduled = True
            try:
                self._loop.call_soon_threadsafe(self.drain)
            except RuntimeError:
                # The loop is closed: the job was returned to the queue while its handler still ran.
                self.pending.clear()

    def drain(self) -> None:
        """Hand every pending record to its sink; called on the loop."""
        self._drain_scheduled = False
        while self.pending:
            sink, record = self.pending.popleft()
            sink.add_log(record)


_CAPTURES: Final[list[JobLogCapture]] = []


class _Factory:
    """The record factory that logging had before the first capture."""

    original: Callable[..., logging.LogRecord] | None = None


def _capturing_factory(*args: Any, **kwargs: Any) -> logging.LogRecord:  # noqa: ANN401 - a record factory's
    record = (_Factory.original or logging.LogRecord)(*args, **kwargs)
    row = CURRENT.get()
    if row is not None and record.name and SECRET in row["args"]:
        _scrub(record, redact.secrets_in(row["args"]))
    # Rowlock's own records are not the job's, and ctx.log stores its records itself; makeLogRecord() has no name yet.
    if row is not None and record.name and not record.name.startswith("rowlock."):
        for capture in tuple(_CAPTURES):
            capture.capture(row, record)
    return record


def _scrub(record: logging.LogRecord, secrets: frozenset[str]) -> None:
    """Mask the secret arguments of a job in a log record of its handler, so that no formatter prints them."""
    text = _message(record)
    scrubbed = redact.scrub(text, secrets)
    if scrubbed != text:
        record.msg, record.args = scrubbed, None
    if record.exc_info and record.exc_info[0] is not None:
        # Formatters print this instead of formatting the exception again.
        record.exc_text = redact.scrub(_FORMATTER.formatException(record.exc_info), secrets)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - as logging itself: a bad format must not fail the handler
        return f"{record.msg!r} % {record.args!r}"


def captured(record: logging.LogRecord) -> CapturedRecord:
    """Format a record, traceback included."""
    text = _message(record)
    if record.exc_info and record.exc_info[0] is not None:
        text = f"{text}\n{record.exc_text or _FORMATTER.formatException(record.exc_info)}"
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[:half]}\n… {len(text) - _LONGEST:,} characters left out …\n{text[-half:]}"
    return CapturedRecord(record.levelno, record.name, text, time.monotonic())


def make_record(name: str, level: int, message: object, args: tuple[Any, ...], exc_info: Any) -> logging.LogRecord:  # noqa: ANN401 - logging's own
    """A record as a logger would create it, but without passing it to any logging handler."""
    if isinstance(exc_info, BaseException):
        exc_info = type(exc_info), exc_info, exc_info.__traceback__
    elif exc_info and not isinstance(exc_info, tuple):
        exc_info = sys.exc_info()
    return logging.LogRecord(name, level, "", 0, message, args, exc_info or None)
