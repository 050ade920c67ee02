from __future__ import annotations

import pytest

from rowlock.cli.job_ids import expanded, ids_in
from rowlock.errors import InvalidId


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A-1\nB-2\n", ["A-1", "B-2"]),
        ("ID    KIND\nA-1   mail\n\nB-2   pay\n", ["A-1", "B-2"]),
        ("No jobs.\n", []),
        ('[{"id": "A-1"}, {"id": "B-2"}]', ["A-1", "B-2"]),
        ('{"id": "A-1"}\n{"id": "B-2"}\n', ["A-1", "B-2"]),
        ("", []),
    ],
)
def test_ids_are_read_from_what_other_commands_print(text: str, found: list[str]) -> None:
    assert ids_in(text) == found


@pytest.mark.parametrize("text", ["[", '{"kind": "mail"}'])
def test_what_is_no_list_of_jobs_is_refused(text: str) -> None:
    with pytest.raises(InvalidId, match="no list of jobs"):
        ids_in(text)


def test_an_id_that_was_given_twice_counts_once() -> None:
    assert expanded(["A-1", "B-2", "A-1"]) == ["A-1", "B-2"]
