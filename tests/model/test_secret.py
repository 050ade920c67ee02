from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowlock.model import secret


def test_a_token_is_taken_apart_again() -> None:
    text, parts = secret.make()
    assert secret.parse(text) == parts
    assert text.startswith(f"rlk_{parts.id}_")
    assert text.replace("_", "").isalnum()
    assert len({secret.make()[0] for _ in range(100)}) == 100


@given(st.integers(0, 63), st.characters(codec="utf-8"))
def test_a_mistyped_token_is_told_from_a_token(at: int, other: str) -> None:
    text, parts = secret.make()
    at = min(at, len(text) - 1)
    wrong = text[:at] + other + text[at + 1 :]
    assert secret.parse(wrong) in (None, parts if wrong == text else None)


@given(st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    assert secret.parse(text) is None
