"""Background jobs for Python on one PostgreSQL table."""

from __future__ import annotations

from rowlock.app import Rowlock
from rowlock.errors import (
    ApprovalRefused,
    ArgumentsTooLarge,
    BulkRefused,
    ClaimLost,
    ConfigurationError,
    DatabaseError,
    DatabaseUnreachable,
    EmbeddedError,
    EndlessDrain,
    EnqueueError,
    Forbidden,
    InvalidArguments,
    InvalidCursor,
    InvalidId,
    InvalidOption,
    InvalidResult,
    InvalidSearch,
    JobFailed,
    JobNotFound,
    LimitNotFound,
    MissingExtra,
    NotAuthenticated,
    OperationNotFound,
    RateLimited,
    ReadOnly,
    RoleNotFound,
    RowlockError,
    RuleNotFound,
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
from rowlock.flow.blocking import SyncContext, SyncItemContext
from rowlock.flow.context import Context
from rowlock.flow.depends import Depends
from rowlock.flow.items import ItemContext, ItemsDone
from rowlock.flow.middleware import Enqueuing
from rowlock.model.access import Permission, Principal
from rowlock.model.approval import Approval, Rule
from rowlock.model.count import Count
from rowlock.model.explanation import Explanation, Reason
from rowlock.model.failure import Failure
from rowlock.model.job import Claim, Job
from rowlock.model.kind import Gate
from rowlock.model.lane import Lane
from rowlock.model.operation import Operation
from rowlock.model.outcome import Cancel, Partial, Snooze
from rowlock.model.page import Page
from rowlock.model.progress import Item, ItemCounts, ItemRef, ItemState, LogLine, Phase, Progress, Skip
from rowlock.model.rate import GateView, Rate, RateView
from rowlock.model.retry import Retry
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.tasks import Enqueued, SyncTask, Task
from rowlock.telemetry import JobLogFilter

__all__ = [
    "Approval",
    "ApprovalRefused",
    "ArgumentsTooLarge",
    "BulkRefused",
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
    "GateView",
    "InvalidArguments",
    "InvalidCursor",
    "InvalidId",
    "InvalidOption",
    "InvalidResult",
    "InvalidSearch",
    "Item",
    "ItemContext",
    "ItemCounts",
    "ItemRef",
    "ItemState",
    "ItemsDone",
    "Job",
    "JobFailed",
    "JobLogFilter",
    "JobNotFound",
    "Lane",
    "LimitNotFound",
    "LogLine",
    "MissingExtra",
    "NotAuthenticated",
    "Operation",
    "OperationNotFound",
    "Page",
    "Partial",
    "Permission",
    "Phase",
    "Principal",
    "Progress",
    "Rate",
    "RateLimited",
    "RateView",
    "ReadOnly",
    "Reason",
    "Retry",
    "RoleNotFound",
    "Rowlock",
    "RowlockError",
    "Rule",
    "RuleNotFound",
    "SchemaAhead",
    "SchemaBehind",
    "SchemaMissing",
    "Settings",
    "Skip",
    "Snooze",
    "StartFailed",
    "State",
    "Stopped",
    "SyncContext",
    "SyncItemContext",
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
