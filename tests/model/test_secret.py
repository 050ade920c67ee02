from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowlock.model import token_text


def test_a_token_is_taken_apart_again() -> None:
    text, parts = token_text.make()
    assert token_text.parse(text) == parts
    assert text.startswith(f"rlk_{parts.id}_")
    assert text.replace("_", "").isalnum()
    assert len({token_text.make()[0] for _ in range(100)}) == 100


@given(st.integers(0, 63), st.characters(codec="utf-8"))
def test_a_mistyped_token_is_told_from_a_token(at: int, other: str) -> None:
    text, parts = token_text.make()
    at = min(at, len(text) - 1)
    wrong = text[:at] + other + text[at + 1 :]
    assert token_text.parse(wrong) in (None, parts if wrong == text else None)


@given(st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    assert token_text.parse(text) is None
