from __future__ import annotations

import pytest

from rowlock import errors
from rowlock.api.problems import problem_of
from rowlock.model import problem
from rowlock.model.access import Permission
from rowlock.model.problem_codes import CONFIGURATION, FAILED

OF_THE_COMMAND_LINE = {CONFIGURATION, FAILED}


def every_error() -> list[type[errors.RowlockError]]:
    found, left = [], [errors.RowlockError]
    while left:
        one = left.pop()
        found.append(one)
        left += one.__subclasses__()
    return sorted(set(found), key=lambda one: one.__name__)


def made(kind: type[errors.RowlockError]) -> errors.RowlockError:
    error = kind.__new__(kind)
    Exception.__init__(error, "why")
    vars(error).update(job_id=0, retry_after=1)  # set by the constructors of UniqueConflict and TooManyAttempts
    return error


@pytest.mark.parametrize("error", every_error(), ids=lambda one: one.__name__)
def test_the_rest_api_and_the_command_line_give_an_error_the_same_code_and_title(
    error: type[errors.RowlockError],
) -> None:
    code, answered = problem.code_of(made(error)), problem_of(made(error))
    if answered.code.name == "internal":
        # REST reveals nothing of what it does not foresee; a terminal shows its message.
        assert code in OF_THE_COMMAND_LINE
    else:
        assert code is answered.code


def test_an_error_brings_what_it_knows() -> None:
    assert problem.members_of(errors.Forbidden("no", Permission.CANCEL)) == {"permission": "jobs:cancel"}
    assert problem.members_of(errors.UniqueConflict("taken", 5)) == {"job_id": "142C-K0DF-CMH4-ZN"}
    assert problem.members_of(errors.JobNotFound("gone")) == {}
