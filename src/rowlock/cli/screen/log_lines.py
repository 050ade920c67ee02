"""Log records as lines for people and as JSON objects for programs; both name a job by its public id."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

from typing_extensions import override

from rowlock.cli.screen.output import clean
from rowlock.model import ids, json_output

_JOB_FIELDS: Final = ("kind", "lane", "attempt", "fence")
"""Fields of a log record about a job, beside its id."""


class TextFormatter(logging.Formatter):
    """`14:03:22 → start …`; warnings and errors name their level, and records of a handler their job.

    number: of a process under a supervisor; its lines begin with it.
    """

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self._from = "" if number is None else f"[{number}] "

    @override
    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        message = record.getMessage()
        # The engine's own lines name their job.
        own = record.name.startswith("rowlock.") and record.name != "rowlock.handler"
        public_id = _public_id(record)
        job = "" if own or public_id is None else f"  [{getattr(record, 'kind', '')} {public_id}]"
        text = f"{self.formatTime(record, '%H:%M:%S')} {self._from}{level}{message}{job}"
        # A message of several lines must not pass for several messages.
        text = text.replace("\n", "\n    ")
        if record.exc_info:
            text += "\n" + _exception(self, record).replace("\n", "\n    ")
        return clean(text)


class JsonFormatter(logging.Formatter):
    """One object per record, with the job it is about and the number of the process."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self._from = {} if number is None else {"process": number}

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Instant (RFC 3339 with milliseconds), level, logger, message, and the job with its public id."""
        public_id = _public_id(record)
        about = {} if public_id is None else {"job_id": public_id}
        about |= {key: getattr(record, key) for key in _JOB_FIELDS if hasattr(record, key)}
        entry = {
            "at": json_output.instant(datetime.fromtimestamp(record.created, UTC), "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._from,
            "message": record.getMessage(),
            **about,
        }
        if record.exc_info:
            entry["exception"] = _exception(self, record)
        return json_output.escaped(json.dumps(entry, default=str, ensure_ascii=False))


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The traceback, without secrets where the record was created inside a job."""
    return record.exc_text or formatter.formatException(record.exc_info or (None, None, None))


def _public_id(record: logging.LogRecord) -> str | None:
    """The public id of the job that a record is about; None: it is about none."""
    job_id = getattr(record, "job_id", None)
    return ids.encode(job_id) if isinstance(job_id, int) else job_id
