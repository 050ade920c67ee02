from __future__ import annotations

import json

import pytest

from rowlock.model.stored_args import OUTPUTS, RATE, VERSION, shown, skills_of, version_of, with_skills


@pytest.mark.parametrize("text", ["{}", '{"a":1}', '{"$version":3,"a":1}', '{"$version":[3,"rate"],"a":1}'])
def test_skills_keep_the_version_and_the_arguments(text: str) -> None:
    before, after = json.loads(text), json.loads(with_skills(text, RATE, OUTPUTS))
    assert skills_of(after) == [RATE, OUTPUTS]
    assert version_of(after) == version_of(before)
    assert shown(after) == shown(before)


def test_without_skills_the_text_stays() -> None:
    assert with_skills('{"a":1}') == '{"a":1}'


@pytest.mark.parametrize(("stored", "version"), [(None, 1), (2, 2), ([3, "rate"], 3), (True, 0), ("x", 0)])
def test_the_version_is_1_unless_it_is_stored(stored: object, version: int) -> None:
    assert version_of({} if stored is None else {VERSION: stored}) == version
