from __future__ import annotations

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.size import shown, size


@pytest.mark.parametrize(
    ("text", "number"), [("512MB", 512_000_000), ("4GiB", 4 * 1024**3), ("1.5 KiB", 1536), (7, 7), ("2G", 2 * 1024**3)]
)
def test_a_size_is_read_as_people_write_it(text: str | int, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("wrong", ["", "much", "-1", 0, True, "4XB", None])
def test_what_is_no_size_is_refused_by_the_name_of_its_option(wrong: object) -> None:
    with pytest.raises(InvalidOption, match=r"^memory must be a size"):
        size(wrong, "memory")  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "text"), [(512, "512 B"), (1536, "1.5 KiB"), (1024**3, "1 GiB")])
def test_a_size_is_written_for_people(number: int, text: str) -> None:
    assert shown(number) == text
