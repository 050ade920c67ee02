"""Log records as lines for people and as JSON objects for programs; both name a job by its public id."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

from typing_extensions import override

from rowlock.cli.screen.output import clean
from rowlock.model import ids, json_output
from rowlock.telemetry import extra_fields

_JOB_FIELDS: Final[tuple[str, ...]] = (
    "job_id", "job_number", "kind", "lane", "attempt", "fence", "state", "outcome", "seconds", "retry_in", "error",
    "trace_id", "span_id",
)  # fmt: skip
"""Fields of a log record about a job; they come first, in this order."""
_OWN: Final = frozenset({"at", "level", "logger", "process", "message", "exception"})
"""Members of every object; a field of the same name does not replace them."""


class TextFormatter(logging.Formatter):
    """`14:03:22.041 → start …`; warnings and errors name their level, and records of a handler their job.

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
        text = f"{self.formatTime(record, '%H:%M:%S')}.{record.msecs:03.0f} {self._from}{level}{message}{job}"
        # A message of several lines must not pass for several messages.
        text = text.replace("\n", "\n    ")
        if record.exc_info or record.exc_text:
            text += "\n" + _exception(self, record).replace("\n", "\n    ")
        return clean(text)


class JsonFormatter(logging.Formatter):
    """One object per record, with every field it has and the number of the process."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self._from = {} if number is None else {"process": number}

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Instant (RFC 3339 with milliseconds), level, logger, message, the job, and the other fields of the record."""
        fields = extra_fields(record)
        public_id = _public_id(record)
        if public_id is not None:
            fields["job_id"] = public_id
        about: dict[str, object] = {key: fields.pop(key) for key in _JOB_FIELDS if key in fields}
        about |= {key: value for key, value in fields.items() if key not in _OWN}
        entry = {
            "at": json_output.instant(datetime.fromtimestamp(record.created, UTC), "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._from,
            "message": record.getMessage(),
            **about,
        }
        if record.exc_info or record.exc_text:
            entry["exception"] = _exception(self, record)
        return json_output.escaped(json.dumps(entry, default=str, ensure_ascii=False))


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The traceback, without secrets where the record was created inside a job."""
    return record.exc_text or formatter.formatException(record.exc_info or (None, None, None))


def _public_id(record: logging.LogRecord) -> str | None:
    """The public id of the job that a record is about; None: it is about none."""
    job_id = getattr(record, "job_id", None)
    return ids.encode(job_id) if isinstance(job_id, int) else job_id
