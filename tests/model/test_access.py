from __future__ import annotations

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.access import ALL, SYSTEM, NewToken, Permission, Principal, Token, known_permissions, permissions_of


def test_permissions_are_read_by_name_and_a_wrong_one_is_answered_with_those_there_are() -> None:
    assert permissions_of(["jobs:read", "workers:view"]) == {Permission.READ, Permission.WORKERS_VIEW}
    with pytest.raises(InvalidOption, match=r"no permission 'jobs:raed'; there are jobs:read, "):
        permissions_of(["jobs:raed"])


def test_permissions_that_newer_code_stored_are_left_out() -> None:
    assert known_permissions(["jobs:read", "jobs:teleport"]) == {Permission.READ}


def test_only_the_system_may_do_everything() -> None:
    assert SYSTEM.permissions == ALL
    ada = Principal("ada", permissions=frozenset({Permission.READ}))
    assert (ada.may(Permission.READ), ada.may(Permission.CANCEL), ada.name) == (True, False, "ada")
    assert Principal("u-17", display="Ada").name == "Ada"


def test_the_text_of_a_new_token_is_not_in_its_repr() -> None:
    token = Token("id", "ci", "ada", None, frozenset(), (), None, None, None, None, None)  # type: ignore[arg-type]
    assert "rlk_secret" not in repr(NewToken(token, "rlk_secret"))
