"""Problems: the stable code and the title of each error, for programs that read REST answers or --json."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rowlock import errors
from rowlock.model import ids


class ProblemKind(NamedTuple):
    """code: stable, for programs; title: a few words for people."""

    code: str
    title: str


USAGE: Final = ProblemKind("invalid-usage", "The command line cannot be read")
"""An unknown command or option, or a missing argument; of the command line alone."""
FAILED: Final = ProblemKind("failed", "The command did not do what was asked")
"""A command that ended without success although nothing went wrong, such as a watched job that failed."""
CONFIGURATION: Final = ProblemKind("invalid-configuration", "The program or its environment is set up wrongly")
UNAVAILABLE: Final = ProblemKind("unavailable", "The database is unavailable")

# The first rule that fits decides, so a class stands above its bases.
_RULES: Final[tuple[tuple[tuple[type[errors.RowlockError], ...], ProblemKind], ...]] = (
    ((errors.ReadOnly,), ProblemKind("read-only", "Only reading is allowed here")),
    ((errors.Forbidden,), ProblemKind("forbidden", "A permission is missing")),
    ((errors.ApprovalRefused,), ProblemKind("approval-refused", "This person's approval does not count")),
    ((errors.NotAuthenticated,), ProblemKind("unauthenticated", "The caller is unknown")),
    ((errors.InvalidSearch,), ProblemKind("invalid-search", "The search cannot be read")),
    ((errors.InvalidCursor,), ProblemKind("invalid-cursor", "The cursor does not belong to this list")),
    ((errors.BulkRefused,), ProblemKind("bulk-refused", "The bulk order does not match its dry run")),
    ((errors.OperationNotFound,), ProblemKind("operation-not-found", "There is no such operation")),
    ((errors.RuleNotFound,), ProblemKind("rule-not-found", "There is no such approval rule")),
    ((errors.ScheduleNotFound,), ProblemKind("schedule-not-found", "There is no such schedule")),
    ((errors.LimitNotFound,), ProblemKind("limit-not-found", "There is no such gate or rate")),
    ((errors.TokenNotFound,), ProblemKind("token-not-found", "There is no such token")),
    ((errors.RoleNotFound,), ProblemKind("role-not-found", "There is no such role")),
    ((errors.InvalidId,), ProblemKind("invalid-id", "This is not a valid id")),
    ((errors.JobNotFound,), ProblemKind("job-not-found", "There is no such job")),
    ((errors.WorkflowNotFound,), ProblemKind("workflow-not-found", "There is no such workflow")),
    ((errors.WorkerNotFound,), ProblemKind("worker-not-found", "There is no such worker")),
    ((errors.UnknownKind,), ProblemKind("kind-not-found", "There is no such kind")),
    ((errors.UnknownLane,), ProblemKind("lane-not-found", "There is no such lane")),
    (
        (errors.InvalidArguments, errors.ArgumentsTooLarge),
        ProblemKind("invalid-arguments", "The arguments do not fit the kind"),
    ),
    ((errors.InvalidOption,), ProblemKind("invalid-option", "An option has an impossible value")),
    ((errors.UniqueConflict,), ProblemKind("unique-conflict", "A job with this key exists already")),
    ((errors.WrongState, errors.EnqueueError), ProblemKind("conflict", "The current state does not allow it")),
    ((errors.MissingExtra,), ProblemKind("missing-extra", "An optional package is not installed")),
    ((errors.DatabaseError, errors.EmbeddedError), UNAVAILABLE),
    ((errors.ConfigurationError,), CONFIGURATION),
)


def kind_of(error: BaseException) -> ProblemKind:
    """The kind of problem that an error is."""
    return next((kind for classes, kind in _RULES if isinstance(error, classes)), FAILED)


def members_of(error: BaseException) -> dict[str, Any]:
    """What the error knows beside its message: a missing permission, a position in a search, the job that has a key."""
    known = {name: getattr(error, name, None) for name in ("permission", "position", "suggestion")}
    if isinstance(error, errors.UniqueConflict) and error.job_id:
        known["job_id"] = ids.encode(error.job_id)
    return {name: value for name, value in known.items() if value not in (None, "")}
