"""Problems: which code an error has and what else it says, for programs that read REST answers or --json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rowlock import errors
from rowlock.model import ids
from rowlock.model.problem_codes import CODES, CONFIGURATION, FAILED

if TYPE_CHECKING:
    from rowlock.model.problem_codes import ProblemCode

# The first rule that fits decides, so a class stands above its bases.
_RULES: Final[tuple[tuple[tuple[type[errors.RowlockError], ...], ProblemCode], ...]] = (
    ((errors.ReadOnly,), CODES["read-only"]),
    ((errors.CrossSite,), CODES["cross-site"]),
    ((errors.Forbidden,), CODES["forbidden"]),
    ((errors.ApprovalRefused,), CODES["approval-refused"]),
    ((errors.TooManyAttempts,), CODES["too-many-requests"]),
    ((errors.NotAuthenticated,), CODES["unauthenticated"]),
    ((errors.InvalidSearch,), CODES["invalid-search"]),
    ((errors.InvalidCursor,), CODES["invalid-cursor"]),
    ((errors.BulkRefused,), CODES["bulk-refused"]),
    ((errors.OperationNotFound,), CODES["operation-not-found"]),
    ((errors.FailureGroupNotFound,), CODES["failure-group-not-found"]),
    ((errors.ViewNotFound,), CODES["view-not-found"]),
    ((errors.WebhookNotFound,), CODES["webhook-not-found"]),
    ((errors.WebhookRefused,), CODES["webhook-refused"]),
    ((errors.ViewExists,), CODES["conflict"]),
    ((errors.RuleNotFound,), CODES["rule-not-found"]),
    ((errors.ScheduleNotFound,), CODES["schedule-not-found"]),
    ((errors.LimitNotFound,), CODES["limit-not-found"]),
    ((errors.TokenNotFound,), CODES["token-not-found"]),
    ((errors.RoleNotFound,), CODES["role-not-found"]),
    ((errors.InvalidId,), CODES["invalid-id"]),
    ((errors.JobNotFound,), CODES["job-not-found"]),
    ((errors.WorkflowNotFound,), CODES["workflow-not-found"]),
    ((errors.WorkerNotFound,), CODES["worker-not-found"]),
    ((errors.UnknownKind,), CODES["kind-not-found"]),
    ((errors.UnknownLane,), CODES["lane-not-found"]),
    ((errors.InvalidArguments, errors.ArgumentsTooLarge), CODES["invalid-arguments"]),
    ((errors.InvalidOption,), CODES["invalid-option"]),
    ((errors.UniqueConflict,), CODES["unique-conflict"]),
    ((errors.WrongState, errors.EnqueueError), CODES["conflict"]),
    ((errors.MissingExtra,), CODES["missing-extra"]),
    ((errors.DatabaseError, errors.EmbeddedError), CODES["unavailable"]),
    ((errors.ConfigurationError,), CONFIGURATION),
)


def code_of(error: BaseException) -> ProblemCode:
    """The code of an error; FAILED: no rule names its class."""
    return next((code for classes, code in _RULES if isinstance(error, classes)), FAILED)


def members_of(error: BaseException) -> dict[str, Any]:
    """What the error knows beside its message: a missing permission, a position in a search, the job that has a key."""
    known = {name: getattr(error, name, None) for name in ("permission", "position", "suggestion")}
    if isinstance(error, errors.UniqueConflict) and error.job_id:
        known["job_id"] = ids.encode(error.job_id)
    return {name: value for name, value in known.items() if value not in (None, "")}
