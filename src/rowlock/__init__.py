"""Background jobs for Python on one PostgreSQL table."""

from __future__ import annotations

from rowlock.app import Rowlock
from rowlock.errors import (
    ArgumentsTooLarge,
    ClaimLost,
    ConfigurationError,
    DatabaseError,
    DatabaseUnreachable,
    EmbeddedError,
    EndlessDrain,
    EnqueueError,
    Forbidden,
    InvalidArguments,
    InvalidId,
    InvalidOption,
    InvalidResult,
    JobFailed,
    JobNotFound,
    MissingExtra,
    NotAuthenticated,
    ReadOnly,
    RoleNotFound,
    RowlockError,
    SchemaAhead,
    SchemaBehind,
    SchemaMissing,
    StartFailed,
    Stopped,
    TokenNotFound,
    TooManyAttempts,
    UniqueConflict,
    UnknownKind,
    UnknownLane,
    UnreadableArguments,
    WaitTimeout,
    WorkerNotFound,
    WrongState,
)
from rowlock.flow.blocking import SyncContext
from rowlock.flow.context import Context
from rowlock.flow.depends import Depends
from rowlock.flow.middleware import Enqueuing
from rowlock.model.access import Permission, Principal
from rowlock.model.count import Count
from rowlock.model.explanation import Explanation, Reason
from rowlock.model.failure import Failure
from rowlock.model.job import Claim, Job, Progress
from rowlock.model.kind import Gate
from rowlock.model.lane import Lane
from rowlock.model.outcome import Cancel, Partial, Snooze
from rowlock.model.retry import Retry
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.tasks import Enqueued, SyncTask, Task
from rowlock.telemetry import JobLogFilter

__all__ = [
    "ArgumentsTooLarge",
    "Cancel",
    "Claim",
    "ClaimLost",
    "ConfigurationError",
    "Context",
    "Count",
    "DatabaseError",
    "DatabaseUnreachable",
    "Depends",
    "EmbeddedError",
    "EndlessDrain",
    "EnqueueError",
    "Enqueued",
    "Enqueuing",
    "Explanation",
    "Failure",
    "Forbidden",
    "Gate",
    "InvalidArguments",
    "InvalidId",
    "InvalidOption",
    "InvalidResult",
    "Job",
    "JobFailed",
    "JobLogFilter",
    "JobNotFound",
    "Lane",
    "MissingExtra",
    "NotAuthenticated",
    "Partial",
    "Permission",
    "Principal",
    "Progress",
    "ReadOnly",
    "Reason",
    "Retry",
    "RoleNotFound",
    "Rowlock",
    "RowlockError",
    "SchemaAhead",
    "SchemaBehind",
    "SchemaMissing",
    "Settings",
    "Snooze",
    "StartFailed",
    "State",
    "Stopped",
    "SyncContext",
    "SyncTask",
    "Task",
    "TokenNotFound",
    "TooManyAttempts",
    "UniqueConflict",
    "UnknownKind",
    "UnknownLane",
    "UnreadableArguments",
    "WaitTimeout",
    "WorkerNotFound",
    "WrongState",
]
