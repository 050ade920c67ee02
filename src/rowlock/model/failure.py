"""Failure: why an attempt failed, as hooks receive it, and how an exception is written into the job's errors."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Self

from rowlock.model import redact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

MESSAGE_CHARACTERS: Final = 2000
"""Characters of a stored message; longer ones are cut in the middle."""
_TRACEBACK_CHARACTERS: Final = 16_000
_FRAME_CHARACTERS: Final = 200
_FRAME: Final = re.compile(r'File "([^"\n]+)", line \d+, in (\S+)')
_LIBRARY: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]|^<")
_LIBRARIES: Final = (str(Path(__file__).parents[1]) + os.sep, str(Path(os.__file__).parent) + os.sep)
"""Rowlock itself, and Python's own library."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, or why its job ended. Secrets of the job's arguments are removed.

    reason      "failed" (an attempt, another follows), "attempts exhausted", "not retried", "quarantined",
                "worker lost", "too old", "expired", "undecodable", …
    type        the exception's class, module included; None when there was no exception
    traceback   as Python prints it, shortened; None when there was no exception
    attempt     the attempt that failed, 1 for the first; 0 when the job never ran
    """

    reason: str
    message: str
    attempt: int
    type: str | None = None
    traceback: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None, attempt: int) -> Self:
        """Make a failure of the error that is stored with a job."""
        about = stored or {}
        reason = str(about.get("reason") or "failed")
        return cls(reason, str(about.get("message") or reason), attempt, about.get("type"), about.get("traceback"))


def error_fields(error: BaseException, secrets: frozenset[str]) -> dict[str, object]:
    """An exception as it is stored: type, message and traceback, shortened, without the secret arguments."""
    name = type(error).__qualname__
    module = type(error).__module__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an exception whose own text fails must not fail its job's bookkeeping
        text = "(its message cannot be printed)"
    try:
        # How the handler was called is the same for every job, and seven frames long.
        trace = "".join(traceback.format_exception(type(error), error, _beyond_the_caller(error.__traceback__)))
    except BaseException:  # noqa: BLE001 - as above
        trace = name
    return {
        "type": shortened(name if module == "builtins" else f"{module}.{name}"),
        "message": shortened(redact.scrub(text, secrets)),
        "traceback": shortened(redact.scrub(trace, secrets), _TRACEBACK_CHARACTERS),
    }


def application_frame(trace: str) -> str | None:
    """Where an exception came from: the innermost function of a traceback outside of libraries; None: there is none.

    With the last folder, the file and the function, not the line: it stays the same over machines and small changes.
    """
    for path, function in reversed(_FRAME.findall(trace)):
        if not is_library(path):
            return shortened("/".join(PurePath(path).parts[-2:]).lstrip("/") + f":{function}", _FRAME_CHARACTERS)
    return None


def is_library(path: str) -> bool:
    """Whether a file of a traceback is not the application's own: installed, Python's or Rowlock's, or no file."""
    return _LIBRARY.search(path) is not None or path.startswith(_LIBRARIES)


def _beyond_the_caller(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is neither Rowlock's nor Python's; all of it if there is none."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith((*_LIBRARIES, "<frozen")):
        inner = inner.tb_next
    return inner or trace


def shortened(text: str, limit: int = MESSAGE_CHARACTERS) -> str:
    """The text as PostgreSQL can store it, cut in the middle where it is longer than the limit."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - limit:,} characters left out …\n{text[-half:]}"
    return redact.storable(text)
