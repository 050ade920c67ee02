"""Exit codes, for scripts and schedulers."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from rowlock.errors import (
    ArgumentsTooLarge,
    ConfigurationError,
    DatabaseUnreachable,
    EmbeddedError,
    InvalidArguments,
    InvalidCursor,
    InvalidId,
    InvalidOption,
    InvalidSearch,
    RowlockError,
    SchemaAhead,
    SchemaBehind,
    SchemaMissing,
    UnknownKind,
    UnknownLane,
    WebhookRefused,
)

EPILOG: Final = (
    "Exit codes: 0 done; 1 the operation failed (no such job, kind, lane or schedule, wrong state, differences found); "
    "2 wrong usage or configuration; 3 the database cannot be reached, or its schema is missing, behind or ahead; "
    "130 interrupted; 141 the reader of a pipe left."
)


class Exit(IntEnum):
    """The documented exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    DATABASE = 3
    INTERRUPTED = 130
    PIPE = 141


_BY_ERROR: Final[tuple[tuple[tuple[type[RowlockError], ...], Exit], ...]] = (
    ((DatabaseUnreachable, SchemaMissing, SchemaBehind, SchemaAhead, EmbeddedError), Exit.DATABASE),
    ((UnknownKind, UnknownLane), Exit.FAILED),
    ((ConfigurationError, InvalidArguments, InvalidOption, ArgumentsTooLarge), Exit.USAGE),
    ((InvalidId, InvalidSearch, InvalidCursor, WebhookRefused), Exit.USAGE),
)


def exit_of(error: RowlockError) -> Exit:
    """The exit code of an error: that of the first matching row of the table."""
    return next((code for classes, code in _BY_ERROR if isinstance(error, classes)), Exit.FAILED)
