from __future__ import annotations

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.operation import ACTIONS, Operation, checked_action


def test_an_action_is_one_of_those_there_are() -> None:
    assert [checked_action(action) for action in ACTIONS] == list(ACTIONS)
    with pytest.raises(InvalidOption, match=r"no bulk action 'explode'; there are cancel, "):
        checked_action("explode")


@pytest.mark.parametrize(("state", "final"), [("running", False), ("completed", True), ("failed", True)])
def test_an_operation_has_ended_when_it_does_not_run(state: str, final: bool) -> None:
    assert Operation("cancel", "hash", state).is_final is final
