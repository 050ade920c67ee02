from __future__ import annotations

from rowlock.model.queue_pair import pair_of


def test_the_pair_of_a_row() -> None:
    assert pair_of({"kind": "k", "priority": 5, "share": 3, "id": 1}) == ("k", 5, 3)
