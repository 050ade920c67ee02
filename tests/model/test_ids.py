from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock.errors import InvalidId, RowlockError
from rowlock.model import ids

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
job_ids = st.integers(1, ids.LARGEST)

# Ids stand in logs, bookmarks and other people's databases: these pairs may never change.
GOLDEN = {
    1: "363M-KAPQ-NW11-0P",
    2: "70B2-ZQ8R-8PHH-Z7",
    3: "167B-41TC-SMB3-1D",
    10: "4JQ9-ZKW5-E9VE-QM",
    1000: "7XGR-B8EY-DCQ9-P2",
    1_000_000: "29EX-H2PN-6EG6-P7",
    2**31: "77Q9-E44N-2EHH-MX",
    2**32: "3GP4-BA0N-JH0K-1Y",
    10**12: "1AC5-3CSZ-NEKE-TP",
    10**18: "5SPT-5C2K-82W2-WD",
    2**63 - 1: "6PFY-VC8F-46V9-6Z",
}


@pytest.mark.parametrize(("job_id", "public_id"), GOLDEN.items())
def test_the_bijection_never_changes(job_id: int, public_id: str) -> None:
    assert ids.encode(job_id) == public_id
    assert ids.decode(public_id) == job_id


@given(job_ids)
def test_every_id_survives_the_round_trip(job_id: int) -> None:
    assert ids.decode(ids.encode(job_id)) == job_id


@given(job_ids)
def test_public_ids_are_safe_in_urls_and_shells(job_id: int) -> None:
    groups = ids.encode(job_id).split("-")
    assert [len(group) for group in groups] == [4, 4, 4, 2]
    assert set("".join(groups)) <= set(ALPHABET)


def test_neighbours_share_no_more_symbols_than_strangers() -> None:
    texts = [ids.encode(job_id).replace("-", "") for job_id in range(1, 2001)]
    shared = sum(a == b for left, right in pairwise(texts) for a, b in zip(left, right, strict=True))
    assert shared / len(texts) < 14 / 32 * 1.6  # 14 symbols, of which the first has only 8 values
    assert texts != sorted(texts)
    assert len({text[:3] for text in texts}) > 1500


@given(job_ids, st.data())
def test_one_wrong_symbol_is_always_noticed(job_id: int, data: st.DataObject) -> None:
    text = ids.encode(job_id).replace("-", "")
    place = data.draw(st.integers(0, 13))
    wrong = data.draw(st.sampled_from(ALPHABET).filter(lambda symbol: symbol != text[place]))
    with pytest.raises(InvalidId, match="check symbol does not fit"):
        ids.decode(text[:place] + wrong + text[place + 1 :])


@given(job_ids, st.sets(st.integers(0, 13), min_size=2, max_size=2))
def test_any_two_swapped_symbols_are_noticed(job_id: int, places: set[int]) -> None:
    symbols = list(ids.encode(job_id).replace("-", ""))
    first, second = sorted(places)
    if symbols[first] == symbols[second]:
        return
    symbols[first], symbols[second] = symbols[second], symbols[first]
    with pytest.raises(InvalidId, match="check symbol does not fit"):
        ids.decode("".join(symbols))


@pytest.mark.parametrize(
    "text",
    [
        "363m-kapq-nw11-0p",
        "363MKAPQNW110P",
        " 363M KAPQ NW11 0P\n",
        "363M-KAPQ-NWIL-OP",
        "363m-kapq-nwli-op",
        "36-3MKAPQ--NW110P",
    ],
)
def test_decoding_forgives_what_people_do_to_ids(text: str) -> None:
    assert ids.decode(text) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("363M-KAPQ-NW11-0Q", "its check symbol does not fit, so at least one symbol is mistyped"),
        ("363M-KAPQ-NW11-0", "it has 13 symbols instead of 14"),
        ("363M-KAPQ-NW11-0PP", "it has 15 symbols instead of 14"),
        ("", "it has 0 symbols instead of 14"),
        ("363M-KAPQ-NW11-0U", f"'U' is not one of the symbols {ALPHABET}"),
        ("363M-KAPQ-NW11-0ß", f"'ß' is not one of the symbols {ALPHABET}"),
        (
            "363M-KAPQ-NW1\N{LATIN SMALL LETTER DOTLESS I}-0P",
            f"'\N{LATIN SMALL LETTER DOTLESS I}' is not one of the symbols {ALPHABET}",
        ),
        ("363M-KAPQ-NW11-0é", f"'é' is not one of the symbols {ALPHABET}"),
        ("0000-0000-0000-00", "no job can have that id"),
    ],
)
def test_a_text_that_is_no_id_says_why_and_shows_one(text: str, message: str) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.decode(text)
    assert str(caught.value) == (f"{text!r} is not a job id: {message}. Expected 14 symbols such as 363M-KAPQ-NW11-0P.")


def test_a_valid_check_symbol_does_not_make_up_for_a_number_beyond_bigint() -> None:
    beyond = [text for check in ALPHABET if _reason(text := "Z000000000000" + check) == "no job can have that id"]
    assert len(beyond) == 1


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidId) as caught:
        ids.decode("x" * 1000)
    assert str(caught.value).startswith(f"'{'x' * 40}…' is not a job id: it has 1000 symbols instead of 14.")


@pytest.mark.parametrize("job_id", [0, -1, 2**63])
def test_numbers_outside_bigint_have_no_public_id(job_id: int) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.encode(job_id)
    assert str(caught.value) == f"A job id is a whole number from 1 to 9223372036854775807, not {job_id}."


@pytest.mark.parametrize(
    ("text", "job_id"),
    [
        (7, 7),
        ("7", 7),
        (" 0042 ", 42),
        ("999999999999", 999_999_999_999),
        ("363m kapq nw11 0p", 1),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_parse_takes_numbers_and_public_ids(text: str | int, job_id: int) -> None:
    assert ids.parse(text) == job_id


@given(job_ids)
def test_parse_never_takes_a_public_id_for_a_number(job_id: int) -> None:
    assert ids.parse(ids.encode(job_id).replace("-", "")) == job_id


@pytest.mark.parametrize("text", [0, -3, 2**63, "0", True])
def test_parse_refuses_impossible_numbers(text: str | int) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.parse(text)
    assert str(caught.value) == (
        "A job id is a whole number from 1 to 9223372036854775807 or a public id such as 363M-KAPQ-NW11-0P, "
        f"not {text}."
    )


@pytest.mark.parametrize("text", ["1234567890123", "-5", "1234-5678-9012", "²", "job 7"])
def test_parse_takes_everything_else_for_a_public_id(text: str) -> None:
    with pytest.raises(InvalidId, match=r"is not a job id: .* Expected 14 symbols such as 363M-KAPQ-NW11-0P\."):
        ids.parse(text)


def test_an_invalid_id_is_a_value_error_too() -> None:
    assert issubclass(InvalidId, ValueError)
    assert issubclass(InvalidId, RowlockError)


def _reason(text: str) -> str:
    try:
        ids.decode(text)
    except InvalidId as error:
        return str(error).split(": ", 1)[1].split(". ", maxsplit=1)[0]
    return ""


@pytest.mark.parametrize(("value", "hint"), [(1.5, ""), (None, ""), (type("Handle", (), {"id": 7})(), " Pass its id.")])
def test_a_value_that_is_no_id_is_refused_and_a_handle_gets_a_hint(value: Any, hint: str) -> None:  # noqa: ANN401 - any
    with pytest.raises(InvalidId) as caught:
        ids.parse(value)
    assert str(caught.value).endswith(f"not a value of type {type(value).__name__}.{hint}")
