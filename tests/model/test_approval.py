from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock.errors import ConfigurationError
from rowlock.model.approval import Approval, demanded


@pytest.mark.parametrize("approvers", [1, 2, 100])
@pytest.mark.parametrize("four_eyes", [None, True])
def test_a_stored_code_is_read_back_as_the_same_approval(approvers: int, four_eyes: bool | None) -> None:
    made = Approval(approvers, four_eyes=four_eyes)
    assert made.code & 1
    assert Approval.of(made.code) == made


@pytest.mark.parametrize("wrong", [{"approvers": 0}, {"approvers": 101}, {"approvers": 1.5}, {"expires_in": 0}])
def test_what_an_approval_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        Approval(**wrong)  # type: ignore[arg-type]


def test_several_demands_become_the_strictest() -> None:
    assert demanded(False, False) is None
    assert demanded(True, False) == Approval()
    strictest = demanded(Approval(2, expires_in="1h"), Approval(four_eyes=True, expires_in="10m"), True)
    assert strictest == Approval(2, four_eyes=True, expires_in=timedelta(minutes=10))


def test_it_is_stored_in_seconds() -> None:
    assert Approval(3, expires_in="1m").stored == [3, None, 60.0]
