from __future__ import annotations

import pytest

from rowlock.model.token_text import digest, make, parse


def test_a_token_is_read_back_and_its_hash_is_what_is_stored() -> None:
    text, made = make()
    assert parse(text) == made
    assert made.hash == digest(text)
    assert text not in repr(made)


@pytest.mark.parametrize(
    "spoiled", [lambda t: t[:-1], lambda t: t[:-1] + ("a" if t[-1] != "a" else "b"), lambda _: "rlk", str.upper]
)
def test_a_typo_is_noticed_without_a_query(spoiled: object) -> None:
    text, _ = make()
    assert parse(spoiled(text)) is None  # type: ignore[operator]
