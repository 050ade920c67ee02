from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock.model.redact import MASK, conceal, redact, reveal, scrub, secrets

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_every_secret_is_masked_and_the_rest_kept() -> None:
    value = {
        "user": "ada",
        "login": {"$secret": "hush"},
        "more": [1, {"$secret": {"deep": [1]}}, {"a": {"$secret": 1}}],
    }
    assert redact(value) == {"user": "ada", "login": "•••", "more": [1, "•••", {"a": "•••"}]}


def test_redacting_leaves_the_original_alone() -> None:
    value = {"a": {"$secret": "hush"}}
    redact(value)
    assert value == {"a": {"$secret": "hush"}}


@given(json_values)
def test_a_value_without_secrets_stays_equal(value: object) -> None:
    if "$secret" not in repr(value):
        assert redact(value) == value
        assert secrets(value) == frozenset()


@given(json_values, st.text(min_size=1))
def test_a_secret_anywhere_is_found_and_hidden(value: object, secret: str) -> None:
    wrapped = {"before": value, "list": [{"x": {"$secret": secret}}]}
    assert secret in secrets(wrapped)
    assert redact(wrapped) == {"before": redact(value), "list": [{"x": "•••"}]}


def test_secrets_are_collected_from_inside_and_bytes_also_decoded() -> None:
    encoded = base64.b64encode(b"open sesame").decode()
    value = {
        "a": {"$secret": {"user": "root", "codes": [1234, None, True, 2.5]}},
        "b": {"$secret": {"$bytes": encoded}},
        "c": {"$secret": {"$bytes": base64.b64encode(b"\xff\xfe").decode()}},
        "plain": "visible",
    }
    assert secrets(value) == {"root", "1234", "2.5", encoded, "open sesame", "//4="}


def test_scrub_removes_secrets_but_not_the_too_short_ones() -> None:
    assert scrub("login hunter2 for abc failed: hunter2", {"hunter2", "abc"}) == "login ••• for abc failed: •••"
    assert scrub("nothing to hide", frozenset()) == "nothing to hide"


def test_scrub_takes_the_longest_secret_first() -> None:
    assert scrub("key=secret-and-more", {"secret", "secret-and-more"}) == "key=•••"


def test_scrub_finds_secrets_quoted_for_python_json_and_urls() -> None:
    secret = "pä ss\n\"w'ö/rd"  # noqa: S105 - made up
    url = "https://x/?p=p%C3%A4%20ss%0A%22w%27%C3%B6%2Frd p%C3%A4+ss%0A%22w%27%C3%B6%2Frd"
    text = f'''{secret!r} {url} "p\\u00e4 ss\\n\\"w'\\u00f6/rd"'''
    assert scrub(text, {secret}) == "'•••' https://x/?p=••• ••• \"•••\""


@given(st.text(), st.text(), st.sets(st.text(min_size=4), min_size=1))
def test_no_secret_survives_scrubbing(before: str, after: str, hidden: set[str]) -> None:
    scrubbed = scrub(before + "|".join(hidden) + after, hidden)
    assert all(secret not in scrubbed for secret in hidden if "•" not in secret and "|" not in secret)


@given(st.text(), st.sets(st.text(max_size=3)))
def test_short_values_leave_the_text_as_it_is(text: str, hidden: set[str]) -> None:
    assert scrub(text, hidden) == text


@pytest.mark.parametrize(
    "form",
    [
        lambda s: s.upper(),
        lambda s: s.lower(),
        lambda s: base64.b64encode(s.encode()).decode(),
        lambda s: base64.urlsafe_b64encode(s.encode()).decode().rstrip("="),
        lambda s: base64.b64encode(b"user:" + s.encode() + b":tail").decode(),
        lambda s: base64.b64encode(b"users:" + s.encode()).decode(),
        lambda s: s.encode().hex(),
        lambda s: quote(s, safe=""),
        json.dumps,
        repr,
    ],
)
def test_a_secret_is_masked_in_other_spellings(form: Any) -> None:  # noqa: ANN401 - a function
    secret = 'Hunter2/"pass"\n?ü'  # noqa: S105 - of this test
    spelled = form(secret)
    scrubbed = scrub(f"before {spelled} after", {secret})
    assert MASK in scrubbed
    assert spelled not in scrubbed
    assert (scrubbed.startswith("before "), scrubbed.endswith(" after")) == (True, True)


def test_a_value_that_holds_a_secret_is_marked_and_reads_back_whole() -> None:
    value = {"url": "https://x/?t=hunter2", "n": 3, "list": ["hunter2", {"a": {"$secret": "x"}}], "m": {"hunter2": 1}}
    marked = conceal(value, {"hunter2"})
    assert redact(marked) == {"url": "•••", "n": 3, "list": ["•••", {"a": "•••"}], "m": "•••"}
    assert reveal(marked) == reveal(value)
    assert conceal({"pin": 12345, "ok": True}, {"12345", "True"}) == {"pin": {"$secret": 12345}, "ok": True}
