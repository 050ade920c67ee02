"""Every error Rowlock raises on purpose; each names the expected value, the given one, and the remedy.

RowlockError
├── ConfigurationError        the program or its environment is set up wrongly
│   ├── StartFailed           a worker's lifespan or a dependency of its own failed, so it did not start
│   ├── MissingExtra          an optional dependency is not installed (prints the pip line)
│   ├── UnknownKind           no handler is registered under that name
│   └── UnknownLane           no lane has that name
├── WorkerFailed              a part of a worker failed for good, so it left; its process ends with an error
├── DatabaseError             the database cannot serve
│   ├── DatabaseUnreachable   no connection could be made, or it broke before the answer came
│   ├── NotifyQueueFull       PostgreSQL's queue of notifications has no room; its slowest listener must read
│   ├── WriteRefused          a trigger or constraint that is not Rowlock's refused the write
│   ├── DatabaseBusy          another transaction held what the call needs, or both waited for each other; try again
│   ├── SchemaMissing         Rowlock's tables are not there
│   ├── SchemaBehind          the schema is older than this code
│   └── SchemaAhead           the schema is too new for this code
├── EmbeddedError             the embedded PostgreSQL cannot start or be reached
├── EnqueueError              a job was refused; nothing was written
│   ├── InvalidArguments      the arguments do not fit the handler's signature
│   │   ├── UnreadableArguments   stored ones do not fit the code of this worker; their job waits for another
│   │   └── UndecodableArguments  stored ones that no code can read; their job fails
│   ├── InvalidOption         an option such as priority or run_at has an impossible value
│   │   └── Unstorable        a text or number that PostgreSQL can neither store nor compare with
│   ├── ArgumentsTooLarge     the encoded arguments exceed the limit
│   ├── InvalidWorkflow       steps that cannot be put together: a cycle, a name twice, a step of another workflow
│   │   └── ChainError        what one step returns is not what the next one takes
│   └── UniqueConflict        unique_key is taken and the policy is "reject"
├── Forbidden                 the caller lacks a permission; nothing was done
│   ├── ReadOnly              nothing may be changed here, by no caller
│   └── CrossSite             a page of another site sent the request
├── NotAuthenticated          the token, session or signature is not valid
│   └── TooManyAttempts       too many failed logins from there; try again later
├── RoleNotFound              no role has that name
├── TokenNotFound             no token has that id
├── InvalidId                 a text that is no job id (also a ValueError)
├── InvalidSearch             a search that cannot be read (also a ValueError); knows the position
├── InvalidCursor             a page cursor that is damaged or belongs to another search (also a ValueError)
├── BulkRefused               a bulk order without its dry run, for another filter, or for more jobs than expected
├── OperationNotFound         no such bulk operation
├── FailureGroupNotFound      no failures with that fingerprint
├── WebhookNotFound           no webhook has that id
├── WebhookRefused            the endpoint's address or scheme is not one that webhooks may reach
├── WebhookFailed             an endpoint did not accept a message; its delivery is tried again
├── ViewNotFound              no saved view has that id
├── ViewExists                a saved view of that name exists
├── RuleNotFound              no such approval rule
├── ScheduleNotFound          no schedule has that name
├── InvalidResult             a handler's return value cannot be stored, or a stored one cannot be read
├── JobNotFound               no such job (or retention removed it)
├── WorkflowNotFound          no such workflow (or retention removed it)
├── WorkerNotFound            no worker has that id or name, or answers probes there
├── WrongState                the verb does not apply in the job's state
│   └── ApprovalRefused       this person's approval does not count for this job
├── SignalTimeout             ctx.wait_for() waited as long as it may; the handler may go on without the signal
├── WaitTimeout               job.wait() gave up; the job goes on
├── LockError                 a lock cannot be had, or is gone
│   ├── LockTaken             it is held already, and wait=False
│   ├── LockTimeout           it was held for all the time given
│   ├── LockNested            the caller holds it already
│   └── LockLost              its connection broke; another process may hold it by now
├── EndlessDrain              a test's drain() ran its limit of jobs and more were due
├── JobFailed                 job.wait() found the job failed, cancelled or expired
│   └── WorkflowFailed        a workflow ended without success; knows the step that failed
├── LimitNotFound             no gate or rate has that key
├── RateLimited               raised or returned by a handler that another service asked to come back later (HTTP 429)
└── ClaimLost                 this attempt no longer owns its job; nothing it writes is accepted

Stopped (a BaseException, like asyncio.CancelledError) is raised inside a blocking handler that has to stop; Suspended,
a kind of it, by ctx.wait_for() when the signal has not come yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


class RowlockError(Exception):
    """Base of every error Rowlock raises on purpose."""


class ConfigurationError(RowlockError):
    """The program or its environment is set up wrongly."""


class StartFailed(ConfigurationError):
    """A worker's lifespan or a dependency of its own failed, so it did not start."""


class MissingExtra(ConfigurationError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"{package} is not installed. Install it with: pip install 'rowlock[{extra}]'")


class UnknownKind(ConfigurationError):
    """No handler is registered under that name."""


class UnknownLane(ConfigurationError):
    """No lane has that name."""


class WorkerFailed(RowlockError):
    """A part of a worker failed for good, so it left in order."""


class DatabaseError(RowlockError):
    """The database cannot serve."""


class DatabaseUnreachable(DatabaseError):
    """No connection could be made, or it broke before the answer came; the message says if the call may have worked."""


class NotifyQueueFull(DatabaseError):
    """PostgreSQL's queue of notifications has no room; the call was not done and may be repeated."""


class WriteRefused(DatabaseError):
    """A trigger, function or constraint that is not Rowlock's refused the write; nothing was written."""


class DatabaseBusy(DatabaseError):
    """Another transaction held what the call needs for too long, or the two met in a conflict; nothing was written.

    sqlstate: PostgreSQL's code: 55P03 a lock was not available, 40P01 deadlock, 40001 serialization failure, 57014
    time limit. blockers: the sessions that held the lock, as text; empty where the server could not be asked.
    """

    def __init__(self, message: str, sqlstate: str, blockers: str = "") -> None:
        self.sqlstate, self.blockers = sqlstate, blockers
        super().__init__(message)


class SchemaMissing(DatabaseError):
    """Rowlock's tables are not there."""


class SchemaBehind(DatabaseError):
    """The schema is older than this code."""


class SchemaAhead(DatabaseError):
    """The schema is too new for this code."""


class EmbeddedError(RowlockError):
    """The embedded PostgreSQL cannot start or be reached."""


class EnqueueError(RowlockError):
    """A job was refused; nothing was written."""


class InvalidArguments(EnqueueError):
    """The arguments do not fit the handler's signature."""


class UnreadableArguments(InvalidArguments):
    """Stored arguments do not fit the code of this worker. cause: one text per problem, without values."""

    def __init__(self, message: str, cause: str) -> None:
        self.cause = cause
        super().__init__(message)


class UndecodableArguments(InvalidArguments):
    """Stored arguments that no code can read: nested too deep, or not written by Rowlock."""


class InvalidOption(EnqueueError):
    """An option has an impossible value."""


class Unstorable(InvalidOption):
    """A value that PostgreSQL can neither store nor compare with; nothing was written."""


class ArgumentsTooLarge(EnqueueError):
    """The encoded arguments exceed the limit."""


class UniqueConflict(EnqueueError):
    """unique_key is taken and the policy is "reject". job_id: the job that has it; of a workflow, its first step."""

    def __init__(self, message: str, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(message)


class InvalidWorkflow(EnqueueError):
    """Steps that cannot be put together."""


class ChainError(InvalidWorkflow):
    """What one step returns is not what the next one takes."""


class Forbidden(RowlockError):
    """The caller lacks a permission; nothing was done. permission: the one that is missing."""

    def __init__(self, message: str, permission: str = "") -> None:
        self.permission = permission
        super().__init__(message)


class ReadOnly(Forbidden):
    """Nothing may be changed here, by no caller."""


class CrossSite(Forbidden):
    """A page of another site sent the request from a user's browser."""


class NotAuthenticated(RowlockError):
    """The token, session or signature is not valid."""


class TooManyAttempts(NotAuthenticated):
    """Too many failed logins from there. retry_after: seconds until the next one is accepted."""

    def __init__(self, message: str, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class RoleNotFound(RowlockError):
    """No role has that name."""


class TokenNotFound(RowlockError):
    """No token has that id."""


class InvalidId(RowlockError, ValueError):
    """A text that is no job id."""


class InvalidSearch(RowlockError, ValueError):
    """A search that cannot be read. position: the character of `text` it fails at; suggestion: what may be meant."""

    text: str = ""

    def __init__(self, message: str, position: int, suggestion: str | None = None) -> None:
        self.position, self.suggestion = position, suggestion
        hint = f" Did you mean {suggestion}?" if suggestion else ""
        super().__init__(f"{message}{hint}")


class InvalidCursor(RowlockError, ValueError):
    """A page cursor that is damaged or belongs to another search."""


class BulkRefused(RowlockError):
    """A bulk order without its dry run, for another filter, or for more jobs than expected."""


class OperationNotFound(RowlockError):
    """No such bulk operation."""


class FailureGroupNotFound(RowlockError):
    """No failures with that fingerprint, or the last one is longer ago than 31 days."""


class WebhookNotFound(RowlockError):
    """No webhook has that id, or it is another tenant's."""


class WebhookRefused(RowlockError):
    """The endpoint's address or scheme is not one that webhooks may reach; nothing was sent."""


class WebhookFailed(RowlockError):
    """An endpoint did not accept a message. status: of its answer, None: there was none."""

    def __init__(self, message: str, status: int | None = None, retry_after: timedelta | None = None) -> None:
        self.status, self.retry_after = status, retry_after
        super().__init__(message)


class ViewNotFound(RowlockError):
    """No saved view has that id, or it is not shared."""


class ViewExists(RowlockError):
    """The owner has a saved view of that name, or as many as one may have."""


class RuleNotFound(RowlockError):
    """No such approval rule."""


class ScheduleNotFound(RowlockError):
    """No schedule has that name."""


class InvalidResult(RowlockError):
    """A handler's return value cannot be stored, or a stored one does not fit the return annotation."""


class JobNotFound(RowlockError):
    """No such job, or retention removed it."""


class WorkflowNotFound(RowlockError):
    """No such workflow, or retention removed it."""


class WorkerNotFound(RowlockError):
    """No worker has that id or name, or answers probes there."""


class WrongState(RowlockError):
    """The verb does not apply in the job's state."""


class ApprovalRefused(WrongState):
    """This person's approval does not count for this job."""


class SignalTimeout(RowlockError):
    """No signal of that name came in time; every later attempt of the job gets the same error."""


class WaitTimeout(RowlockError):
    """job.wait() gave up waiting; the job goes on."""


class LockError(RowlockError):
    """A lock cannot be had, or is gone. holder: the LockUser that has it, if known."""

    def __init__(self, message: str, holder: object = None) -> None:
        self.holder = holder
        super().__init__(message)


class LockTaken(LockError):
    """The lock is held already, and wait=False."""


class LockTimeout(LockError):
    """The lock was held for all the time given."""


class LockNested(LockError):
    """The caller holds the lock already and would wait for itself."""


class LockLost(LockError):
    """The connection of the lock broke inside its block; another process may hold it by now."""


class EndlessDrain(RowlockError):
    """A test's drain() ran as many jobs as it may, and more were due."""


class JobFailed(RowlockError):
    """The awaited job ended without success."""


class WorkflowFailed(JobFailed):
    """The awaited workflow ended without success. step: the name of the step that failed first; None: none did."""

    def __init__(self, message: str, step: str | None = None) -> None:
        self.step = step
        super().__init__(message)


class LimitNotFound(RowlockError):
    """No gate, or no rate, has that key."""


class RateLimited(RowlockError):
    """A handler raises or returns it when another service asks to come back later (HTTP 429, Retry-After).

    Its rates, or the one of that key, are paused for every worker, and the job runs again afterwards; no attempt is
    lost. after: seconds, a timedelta or a text such as "30s".
    """

    def __init__(self, after: object, *, key: str | None = None) -> None:
        self.after, self.key = after, key
        super().__init__(f"asked to come back after {after}")


class ClaimLost(RowlockError):
    """This attempt no longer owns its job; nothing it writes is accepted."""


class Stopped(BaseException):
    """A blocking handler has to stop (cancel, timeout, shutdown): let it pass, clean up in `finally`.

    A BaseException, so that `except Exception` in a handler does not swallow it.
    """


class Suspended(Stopped):
    """The job waits for a signal and gives its slot back: let it pass, clean up in `finally`.

    When the signal is there, or its time is over, the handler is called again from its top.
    """

    def __init__(self, signal: str, timeout: timedelta | None) -> None:
        self.signal, self.timeout = signal, timeout
        super().__init__(f"waits for the signal {signal!r}")
