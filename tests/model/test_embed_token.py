"""Embed tokens as text: what is signed comes back, and nothing else is accepted."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock import InvalidOption
from rowlock.model.embed_token import DETAILS, EmbedGrant, UnverifiedToken, details_of, user_target
from rowlock.model.keys import is_key

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 3, 1, 9, 30, 0, 123456, tzinfo=UTC)
SECRET = bytes(range(32))
GRANT = EmbedGrant("4f2c", NOW, NOW + timedelta(minutes=15), 7, "ada", "acme", frozenset({"items"}), may_cancel=True)
KEYS = st.text(min_size=1, max_size=50).filter(is_key)


def written(said: object) -> str:
    return "rle_" + base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=") + ".AAAA"


@given(
    job=st.none() | st.integers(1, 2**63 - 1),
    subject=KEYS,
    tenant=st.none() | KEYS,
    show=st.frozensets(st.sampled_from(DETAILS)),
    cancel=st.booleans(),
)
def test_what_was_signed_comes_back(
    job: int | None, subject: str, tenant: str | None, show: frozenset[str], *, cancel: bool
) -> None:
    grant = EmbedGrant("4f2c", NOW, NOW + timedelta(minutes=15), job, subject, tenant, show, cancel)
    token = UnverifiedToken.parse(grant.signed(SECRET))
    assert token is not None
    assert (token.grant, token.fits(SECRET)) == (grant, True)


def test_another_key_or_another_text_does_not_fit() -> None:
    text = GRANT.signed(SECRET)
    right = UnverifiedToken.parse(text)
    assert right is not None
    assert not right.fits(bytes(32))
    for place in range(4, text.index(".")):
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        token = UnverifiedToken.parse(changed)
        assert token is None or not token.fits(SECRET)
    body, _, signature = text.partition(".")
    cut = UnverifiedToken.parse(f"{body}.{signature[:-4]}")
    assert cut is None or not cut.fits(SECRET)


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.pop("k"),
        lambda said: said.update(k="a\0b"),
        lambda said: said.update(k=["4f2c"]),
        lambda said: said.update(j="7"),
        lambda said: said.update(j=1.5),
        lambda said: said.update(s="a\0b"),
        lambda said: said.update(t=5),
        lambda said: said.update(i="now"),
        lambda said: said.update(e=10**30),
        lambda said: said.update(m=5),
        lambda said: (said.pop("j"), said.pop("s")),
    ],
)
def test_a_text_that_nobody_signed_is_none(change: Callable[[dict[str, Any]], object]) -> None:
    said: dict[str, Any] = {"k": "4f2c", "i": 1, "e": 2, "j": 7, "s": "ada", "t": "acme", "m": ["items"]}
    assert UnverifiedToken.parse(written(said)) is not None
    change(said)
    assert UnverifiedToken.parse(written(said)) is None


@pytest.mark.parametrize(
    "text", ["", "rle_", "rle_.", "rle_!.!", "rlk_x.y", written(5), written([]), "rle_" + "A" * 20_000]
)
def test_other_texts_are_none(text: str) -> None:
    assert UnverifiedToken.parse(text) is None


def test_people_of_two_tenants_are_revoked_apart() -> None:
    targets = {
        user_target("ada", None),
        user_target("ada", "acme"),
        user_target('"]', "acme"),
        user_target("a", "null"),
    }
    assert len(targets) == 4


def test_what_a_token_can_show_is_said() -> None:
    assert details_of("logs") == {"logs"}
    with pytest.raises(InvalidOption, match="items, logs, result, error; got args"):
        details_of(["items", "args"])
