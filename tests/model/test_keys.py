from __future__ import annotations

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.keys import KEY_BYTES, checked_key, is_key, shown


@pytest.mark.parametrize("key", ["a", "org:7", "é" * (KEY_BYTES // 2)])
def test_a_key_is_a_text_that_the_database_can_index(key: str) -> None:
    assert checked_key(key, "unique_key") == key


@pytest.mark.parametrize("wrong", ["", "a" * (KEY_BYTES + 1), "é" * (KEY_BYTES // 2 + 1), "a\0", "\ud800", 7, None])
def test_another_value_is_refused_by_the_name_of_its_option(wrong: object) -> None:
    assert not is_key(wrong)
    with pytest.raises(InvalidOption, match=r"^unique_key must be "):
        checked_key(wrong, "unique_key")


def test_a_message_shows_no_more_than_it_has_room_for() -> None:
    assert shown("abc") == "'abc'"
    assert len(shown("x" * 1000)) < 110
    assert shown(10**5000) == "a int"
