from __future__ import annotations

import pytest

from rowlock.errors import InvalidCursor
from rowlock.model.count import Count
from rowlock.model.page import Cursor, Listing, decode

CURSOR = Cursor("newest", 42, "abc", back=True, count=Count(7))


def test_a_cursor_is_read_as_it_was_written() -> None:
    assert decode(CURSOR.encode(), sort="newest", filter_hash="abc") == CURSOR


@pytest.mark.parametrize("text", ["", "x", CURSOR.encode()[:-1], CURSOR.encode() + "A", "é"])
def test_what_was_cut_off_or_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor, match="no cursor of a page"):
        decode(text, sort="newest", filter_hash="abc")


@pytest.mark.parametrize(("sort", "filter_hash"), [("oldest", "abc"), ("newest", "abd")])
def test_a_cursor_of_another_search_is_refused(sort: str, filter_hash: str) -> None:
    with pytest.raises(InvalidCursor, match="another search or another order"):
        decode(CURSOR.encode(), sort=sort, filter_hash=filter_hash)


def test_a_listing_says_whether_it_was_cut_off() -> None:
    assert not Listing().cut_off
    assert Listing(before=5).cut_off
