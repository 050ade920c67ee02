"""Background jobs for Python on one PostgreSQL table.

This module is the public interface; `rowlock.app.Rowlock` is where to start reading. A job's life is in `rowlock.flow`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from rowlock.app import Rowlock
from rowlock.errors import (
    ApprovalRefused,
    ArgumentsTooLarge,
    BulkRefused,
    ChainError,
    ClaimLost,
    ConfigurationError,
    DatabaseBusy,
    DatabaseError,
    DatabaseUnreachable,
    EmbeddedError,
    EndlessDrain,
    EnqueueError,
    FailureGroupNotFound,
    Forbidden,
    InvalidArguments,
    InvalidCursor,
    InvalidId,
    InvalidOption,
    InvalidResult,
    InvalidSearch,
    InvalidWorkflow,
    JobFailed,
    JobNotFound,
    LimitNotFound,
    LockError,
    LockLost,
    LockNested,
    LockTaken,
    LockTimeout,
    MissingExtra,
    NotAuthenticated,
    OperationNotFound,
    RateLimited,
    ReadOnly,
    RoleNotFound,
    RowlockError,
    RuleNotFound,
    ScheduleNotFound,
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
    Unstorable,
    ViewExists,
    ViewNotFound,
    WaitTimeout,
    WorkerNotFound,
    WorkflowFailed,
    WorkflowNotFound,
    WrongState,
)
from rowlock.flow.enqueue.middleware import EnqueueCall, Enqueuing
from rowlock.flow.kinds.depends import Depends
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.items import ItemContext, ItemsDone
from rowlock.flow.progress.sync_context import SyncContext
from rowlock.flow.progress.sync_items import SyncItemContext
from rowlock.model.access import Permission, Principal
from rowlock.model.failure import Failure
from rowlock.model.job import Claim, Job
from rowlock.model.kind import Gate
from rowlock.model.lane import Lane
from rowlock.model.lock import LockUser, LockView
from rowlock.model.outcome import Cancel, Partial, Snooze
from rowlock.model.progress import Item, ItemCounts, ItemRef, ItemState, LogLine, Phase, Progress, Skip
from rowlock.model.rate import GateView, Rate, RateView
from rowlock.model.retry import Retry
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.tasks import Enqueued, SyncTask, Task
from rowlock.telemetry import JobLogFilter

if TYPE_CHECKING:
    from rowlock.compose.chain import Chain, chain
    from rowlock.compose.group import Group, group
    from rowlock.compose.step import RESULT, Step
    from rowlock.compose.workflow import Node, Workflow
    from rowlock.compose.workflow_handle import Started
    from rowlock.model.approval import Approval, Rule
    from rowlock.model.count import Count
    from rowlock.model.explanation import Explanation, Reason
    from rowlock.model.newer_than import newer_than
    from rowlock.model.operation import Operation
    from rowlock.model.page import Page
    from rowlock.model.schedule import Schedule
    from rowlock.model.times.window import Window
    from rowlock.model.workflow import StepView, WorkflowPage, WorkflowState, WorkflowView

__version__ = "0.1.0"
_LAZY: Final = {
    "Chain": "rowlock.compose.chain",
    "chain": "rowlock.compose.chain",
    "Group": "rowlock.compose.group",
    "group": "rowlock.compose.group",
    "Started": "rowlock.compose.workflow_handle",
    "RESULT": "rowlock.compose.step",
    "Step": "rowlock.compose.step",
    "Node": "rowlock.compose.workflow",
    "Workflow": "rowlock.compose.workflow",
    "Approval": "rowlock.model.approval",
    "Rule": "rowlock.model.approval",
    "Count": "rowlock.model.count",
    "Explanation": "rowlock.model.explanation",
    "Reason": "rowlock.model.explanation",
    "newer_than": "rowlock.model.newer_than",
    "Operation": "rowlock.model.operation",
    "Page": "rowlock.model.page",
    "Schedule": "rowlock.model.schedule",
    "Window": "rowlock.model.times.window",
    "StepView": "rowlock.model.workflow",
    "WorkflowPage": "rowlock.model.workflow",
    "WorkflowState": "rowlock.model.workflow",
    "WorkflowView": "rowlock.model.workflow",
}
"""The modules of the names that no worker needs; each is imported at its first use."""

__all__ = [
    "RESULT",
    "Approval",
    "ApprovalRefused",
    "ArgumentsTooLarge",
    "BulkRefused",
    "Cancel",
    "Chain",
    "ChainError",
    "Claim",
    "ClaimLost",
    "ConfigurationError",
    "Context",
    "Count",
    "DatabaseBusy",
    "DatabaseError",
    "DatabaseUnreachable",
    "Depends",
    "EmbeddedError",
    "EndlessDrain",
    "EnqueueCall",
    "EnqueueError",
    "Enqueued",
    "Enqueuing",
    "Explanation",
    "Failure",
    "FailureGroupNotFound",
    "Forbidden",
    "Gate",
    "GateView",
    "Group",
    "InvalidArguments",
    "InvalidCursor",
    "InvalidId",
    "InvalidOption",
    "InvalidResult",
    "InvalidSearch",
    "InvalidWorkflow",
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
    "LockError",
    "LockLost",
    "LockNested",
    "LockTaken",
    "LockTimeout",
    "LockUser",
    "LockView",
    "LogLine",
    "MissingExtra",
    "Node",
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
    "Schedule",
    "ScheduleNotFound",
    "SchemaAhead",
    "SchemaBehind",
    "SchemaMissing",
    "Settings",
    "Skip",
    "Snooze",
    "StartFailed",
    "Started",
    "State",
    "Step",
    "StepView",
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
    "Unstorable",
    "ViewExists",
    "ViewNotFound",
    "WaitTimeout",
    "Window",
    "WorkerNotFound",
    "Workflow",
    "WorkflowFailed",
    "WorkflowNotFound",
    "WorkflowPage",
    "WorkflowState",
    "WorkflowView",
    "WrongState",
    "chain",
    "group",
    "newer_than",
]


if not TYPE_CHECKING:  # a checker that sees this function believes in any name

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        found = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
