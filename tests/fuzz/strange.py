"""Strange values: what people, programs and attackers write where a text, a number, an id or a moment belongs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from rowlock.model import ids

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

NAMES: Final = st.text("abcdefghij", min_size=1, max_size=8)
SHARP: Final = (
    "", " ", "\0", "a\0b", "\ud800", "x\udfffy", "\udcff", "'", '"', "\\", "'; DROP TABLE rowlock.jobs; --", "%", "_",
    "*", "${jndi:x}", "{0}", "%s", "%(x)s", "[bold]x[/bold]", "[/]", "\x1b[31m", "\r\n", "\u202e", "ß", "İ", "٣", "１",
    "²", "NaN", "null", "true", "-", "--", "-1", "0", "1e309", "9" * 30, "$secret", "$bytes", "$output", "../..", "a/b",
    "a:b", "a@b", "lane:x", "👩‍👩‍👧", "\N{COMBINING ACUTE ACCENT}" * 50, "é" * 501, "x" * 1001, "y" * 3000,
)  # fmt: skip
"""Texts that are something else to a database, a terminal, a format or a file system."""
TEXTS: Final[SearchStrategy[str]] = st.one_of(
    NAMES, st.sampled_from(SHARP), st.text(st.characters(exclude_categories=()), max_size=12)
)
"""Surrogates and NUL among them, which st.text() leaves out."""
NUMBERS: Final = st.one_of(
    st.integers(-3, 120),
    st.sampled_from([2**15, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63) - 1, 10**30]),
)
HUGE: Final = st.sampled_from([400, 4100, 5000]).map(lambda digits: 10**digits)
"""Made and not listed: Python refuses to print the last one."""
ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia")
MOMENTS: Final = st.one_of(
    st.datetimes(timezones=st.sampled_from([ZoneInfo(name) for name in ZONES])),
    st.datetimes(timezones=st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)),
    st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=timezone(timedelta(hours=-23)))]),
    st.datetimes(),
)
SPANS: Final = st.one_of(
    st.sampled_from(["1s", "2h", "0s", "30 days", "100 years", "1e9s", "P1D", "-5s", "soon", ""]),
    st.timedeltas(),
    st.floats(),
    st.integers(-5, 10**6),
    TEXTS,
)


def _mangled(number: int) -> SearchStrategy[str]:
    text = ids.encode(number)
    return st.sampled_from(
        [text, text.lower(), text.replace("-", ""), f"W-{text}", f"job-{text}", text[:-1], text + "0", f" {text} ",
         text.translate({ord(c): ord(c) + 0xFEE0 for c in "0123456789"}), ids.encode_workflow(number)]
    )  # fmt: skip


IDS: Final[SearchStrategy[int | str]] = st.one_of(
    st.integers(1, 5), NUMBERS, st.integers(1, 5).map(str), NUMBERS.map(str), st.integers(1, 5).flatmap(_mangled),
    TEXTS, HUGE,
)  # fmt: skip
"""Of jobs and workflows: those of 1 to 5 may be there."""


def short(value: object) -> bool:
    """Whether Python prints it."""
    return not isinstance(value, int) or abs(value) < 10**4000


def json_values(texts: SearchStrategy[str] = TEXTS) -> SearchStrategy[Any]:
    """What json.loads may give, and a little more."""
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, HUGE)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


def nested(levels: int) -> object:
    """A list in a list in a list …"""
    value: object = 1
    for n in range(levels):
        value = [value] if n % 2 else {"a": value}
    return value


DEEP: Final = st.sampled_from([1, 20, 90, 140, 160, 199, 201, 250, 500, 3000]).map(nested)
MAPPINGS: Final = st.one_of(
    st.dictionaries(TEXTS, json_values(), max_size=3),
    DEEP.map(lambda value: {"deep": value}),
    st.just({1: "one", "1": "another"}),
)
assert sys.getrecursionlimit() >= 1000
