"""structlog: its log lines carry the job inside which they are written.

import structlog
from rowlock.contrib.structlog import add_job

structlog.configure(processors=[add_job, structlog.processors.TimeStamper(), structlog.processors.JSONRenderer()])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowlock.errors import MissingExtra
from rowlock.telemetry import CURRENT, current_fields, without_secrets

try:
    import structlog as _structlog
except ImportError as error:
    raise MissingExtra("structlog", "structlog") from error

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from structlog.typing import ExcInfo, Processor

__all__ = ["add_job", "processors"]


def add_job(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the fields of the job whose handler writes this line, and mask its secret arguments; for processors=[…].

    A field that the line has already stays. Outside of handlers nothing is added.
    """
    row = CURRENT.get()
    if row is None:
        return event
    scrubbed = without_secrets({key: value for key, value in event.items() if key != "exc_info"}, row)
    event.update(scrubbed)
    for key, value in current_fields().items():
        event.setdefault(key, value)
    return event


def processors() -> list[Processor]:
    """For ProcessorFormatter(foreign_pre_chain=…): records of logging, Rowlock's own included, with all fields."""
    return [
        _structlog.stdlib.add_log_level,
        _structlog.stdlib.add_logger_name,
        _structlog.stdlib.ExtraAdder(),
        add_job,
        _add_traceback,
    ]


def _add_traceback(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A record about a failed attempt has its traceback as text; the exception itself may be of another process."""
    record = event.get("_record")
    text = getattr(record, "exc_text", None)
    exc_info: ExcInfo | bool | None = event.get("exc_info")
    if text and not exc_info:
        event.setdefault("exception", text)
    return event
