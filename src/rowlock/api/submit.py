"""Submit over HTTP: a request's body becomes the desk's options, and the desk's outcome a status or a problem."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from rowlock.api.problems import Problem
from rowlock.desk.idempotent_submit import (
    FirstSubmit,
    IdempotentSubmit,
    JobPruned,
    KeyReused,
    RepeatedSubmit,
    RequestKey,
    SubmitInFlight,
)

if TYPE_CHECKING:
    from rowlock.api.schemas.jobs import Submission
    from rowlock.app import Rowlock
    from rowlock.desk.access import Desk
    from rowlock.desk.submit import SubmitOptions, Submitted

_SCOPE: Final = "POST /jobs"
_NOT_OPTIONS: Final = {"kind", "args"}


@dataclass(frozen=True, slots=True)
class SubmitAnswer:
    """The answer to a submission, before anybody waits for the job's end.

    replayed: an earlier request with the same Idempotency-Key got it first. first: set if this request has a key.
    """

    submitted: Submitted
    status: int
    replayed: bool = False
    first: FirstSubmit | None = None


class JobSubmission:
    """POST /jobs of one application."""

    def __init__(self, app: Rowlock) -> None:
        self._idempotent = IdempotentSubmit(app.database, app.jobs.get, app.submit)

    async def submit(self, desk: Desk, submission: Submission, key: str | None) -> SubmitAnswer:
        """Enqueue the job, or find the job that this key has made."""
        options = _options(submission)
        if key is None:
            submitted = await desk.jobs.submit(submission.kind, submission.args, **options)
            return SubmitAnswer(submitted, _status(submitted))
        request_key = RequestKey.of(_SCOPE, key, submission.model_dump_json(), desk)
        outcome = await self._idempotent.submit(
            desk, request_key, submission.kind, submission.args, options, status_of=_status
        )
        match outcome:
            case FirstSubmit():
                return SubmitAnswer(outcome.submitted, outcome.status, first=outcome)
            case RepeatedSubmit():
                return SubmitAnswer(outcome.submitted, outcome.status, replayed=True)
            case SubmitInFlight():
                raise Problem("in-flight", "A request with this Idempotency-Key is being answered. Ask again later.")
            case KeyReused():
                raise Problem("key-reused", "This Idempotency-Key was used for another body. Use a new key.")
            case JobPruned():
                raise Problem("job-not-found", "The job of this Idempotency-Key was removed by its retention.")
            case _:
                assert_never(outcome)

    async def answered(self, answer: SubmitAnswer, status: int) -> None:
        """Answer repetitions of the request with this status, too."""
        if answer.first is not None and status != answer.status:
            await self._idempotent.change_status(answer.first, status)


def _status(submitted: Submitted) -> int:
    return HTTPStatus.ACCEPTED if submitted.what == "created" else HTTPStatus.OK


def _options(submission: Submission) -> SubmitOptions:
    """The fields that were sent, as options of the desk."""
    sent: dict[str, Any] = {name: getattr(submission, name) for name in submission.model_fields_set - _NOT_OPTIONS}
    return cast("SubmitOptions", {"on_conflict": submission.on_conflict, **sent})
