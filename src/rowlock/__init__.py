"""Background jobs for Python on one PostgreSQL table.

This module is the public interface: programs import it, and no module of Rowlock does. Start with app.py (`Rowlock`);
a job's life is in `rowlock.flow`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

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
    WebhookFailed,
    WebhookNotFound,
    WebhookRefused,
    WorkerNotFound,
    WorkflowFailed,
    WorkflowNotFound,
    WrongState,
)

if TYPE_CHECKING:
    from rowlock.app import Rowlock
    from rowlock.compose.chain import Chain, chain
    from rowlock.compose.group import Group, group
    from rowlock.compose.step import RESULT, Step
    from rowlock.compose.workflow import Node, Workflow
    from rowlock.compose.workflow_handle import Started
    from rowlock.flow.enqueue.middleware import EnqueueCall, Enqueuing
    from rowlock.flow.kinds.depends import Depends
    from rowlock.flow.progress.context import Context
    from rowlock.flow.progress.items import ItemContext, ItemsDone
    from rowlock.flow.progress.sync_context import SyncContext
    from rowlock.flow.progress.sync_items import SyncItemContext
    from rowlock.model.access import Permission, Principal
    from rowlock.model.approval import Approval, Rule
    from rowlock.model.count import Count
    from rowlock.model.explanation import Explanation, Reason
    from rowlock.model.failure import Failure
    from rowlock.model.job import Claim, Job
    from rowlock.model.kind import Gate
    from rowlock.model.lane import Lane
    from rowlock.model.lock import LockUser, LockView
    from rowlock.model.newer_than import newer_than
    from rowlock.model.operation import Operation
    from rowlock.model.outcome import Cancel, Partial, Snooze
    from rowlock.model.page import Page
    from rowlock.model.progress import Item, ItemCounts, ItemRef, ItemState, LogLine, Phase, Progress, Skip
    from rowlock.model.rate import GateView, Rate, RateView
    from rowlock.model.retry import Retry
    from rowlock.model.schedule import Schedule
    from rowlock.model.state import State
    from rowlock.model.times.window import Window
    from rowlock.model.webhook import NewWebhook, Webhook, WebhookDelivery
    from rowlock.model.workflow import StepView, WorkflowPage, WorkflowState, WorkflowView
    from rowlock.settings import Settings
    from rowlock.tasks import Enqueued, SyncTask, Task
    from rowlock.telemetry import JobLogFilter

__version__ = "0.1.0"
_MODULES: Final = {
    "rowlock.app": ("Rowlock",),
    "rowlock.compose.chain": ("Chain", "chain"),
    "rowlock.compose.group": ("Group", "group"),
    "rowlock.compose.step": ("RESULT", "Step"),
    "rowlock.compose.workflow": ("Node", "Workflow"),
    "rowlock.compose.workflow_handle": ("Started",),
    "rowlock.flow.enqueue.middleware": ("EnqueueCall", "Enqueuing"),
    "rowlock.flow.kinds.depends": ("Depends",),
    "rowlock.flow.progress.context": ("Context",),
    "rowlock.flow.progress.items": ("ItemContext", "ItemsDone"),
    "rowlock.flow.progress.sync_context": ("SyncContext",),
    "rowlock.flow.progress.sync_items": ("SyncItemContext",),
    "rowlock.model.access": ("Permission", "Principal"),
    "rowlock.model.approval": ("Approval", "Rule"),
    "rowlock.model.count": ("Count",),
    "rowlock.model.explanation": ("Explanation", "Reason"),
    "rowlock.model.failure": ("Failure",),
    "rowlock.model.job": ("Claim", "Job"),
    "rowlock.model.kind": ("Gate",),
    "rowlock.model.lane": ("Lane",),
    "rowlock.model.lock": ("LockUser", "LockView"),
    "rowlock.model.newer_than": ("newer_than",),
    "rowlock.model.operation": ("Operation",),
    "rowlock.model.outcome": ("Cancel", "Partial", "Snooze"),
    "rowlock.model.page": ("Page",),
    "rowlock.model.progress": ("Item", "ItemCounts", "ItemRef", "ItemState", "LogLine", "Phase", "Progress", "Skip"),
    "rowlock.model.rate": ("GateView", "Rate", "RateView"),
    "rowlock.model.retry": ("Retry",),
    "rowlock.model.schedule": ("Schedule",),
    "rowlock.model.state": ("State",),
    "rowlock.model.times.window": ("Window",),
    "rowlock.model.webhook": ("NewWebhook", "Webhook", "WebhookDelivery"),
    "rowlock.model.workflow": ("StepView", "WorkflowPage", "WorkflowState", "WorkflowView"),
    "rowlock.settings": ("Settings",),
    "rowlock.tasks": ("Enqueued", "SyncTask", "Task"),
    "rowlock.telemetry": ("JobLogFilter",),
}
"""The modules of all other public names; each is imported at the first use of one of its names."""
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}

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
    "NewWebhook",
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
    "Webhook",
    "WebhookDelivery",
    "WebhookFailed",
    "WebhookNotFound",
    "WebhookRefused",
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
        if name not in _MODULE_OF:
            message = f"module {__name__!r} has no attribute {name!r}"
            if name.startswith("_"):  # asked for by Python itself, at every import
                raise AttributeError(message)
            words = import_module("rowlock.model.spelling.other_queues")
            if name in words.OF_THE_PACKAGE:
                # Of an AttributeError, `from rowlock import …` would not show the text.
                raise ImportError(words.unknown_member(__name__, name, words.OF_THE_PACKAGE), name=name)
            raise AttributeError(message)
        found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
