from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.options import Options, as_json, checked_priority, json_text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"priority": 101}, "priority must be a whole number from -100 to 100"),
        ({"priority": True}, "priority must be"),
        ({"max_attempts": 0}, "max_attempts must be"),
        ({"run_at": datetime(2026, 1, 1)}, "a naive one is ambiguous"),  # noqa: DTZ001 - the mistake
        ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "year 9000"),
        ({"run_at": datetime(2026, 1, 1, tzinfo=UTC), "run_in": 1}, "both given"),
        ({"run_in": "soon"}, "run_in"),
        ({"on_conflict": "explode"}, "on_conflict must be"),
        ({"unique_scope": "dead"}, "unique_scope must be"),
        ({"unique_key": "k", "on_conflict": "debounce"}, "Pass run_in"),
        ({"tags": "blue"}, "tags must be a list"),
        ({"tenant": ""}, "tenant must be"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        Options(**wrong)  # type: ignore[arg-type]


def test_priorities_have_two_ends() -> None:
    assert [checked_priority(n) for n in (-100, 0, 100)] == [-100, 0, 100]


def test_refs_and_meta_are_stored_as_json_or_not_at_all() -> None:
    assert as_json(None, "refs") is as_json({}, "refs") is None
    assert as_json({"project": 7}, "refs") == '{"project": 7}'
    assert as_json({"order": UUID(int=7)}, "refs") == '{"order": "00000000-0000-0000-0000-000000000007"}'
    assert json_text("\\u0000", "meta") == '"\\\\u0000"'


@pytest.mark.parametrize("wrong", [{"a": object()}, {"a": float("nan")}, {"a": "\0"}, {"a": "\ud800"}])
def test_what_the_database_cannot_store_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match=r"^meta must be"):
        as_json(wrong, "meta")
