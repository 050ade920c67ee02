from __future__ import annotations

import time
from datetime import UTC, datetime

from rowlock.flow.claim.cursors import Cursors
from rowlock.flow.claim.saturation import Saturation
from rowlock.model.lane import Lane

LANE = Lane("all", kinds=("*",))
PAIRS = [(f"k{n}", 0, 0) for n in range(100)]


URGENT = [("k0", 5, 0), ("k1", 9, 0)]


def saturation() -> Saturation:
    cursors = Cursors(time.monotonic)
    cursors.publish((pair, datetime(2026, 1, 1, tzinfo=UTC)) for pair in [*PAIRS, *URGENT])
    return Saturation(cursors)


def test_a_lane_is_saturated_while_its_claims_are_filled_or_look_at_some_pairs_only() -> None:
    found = saturation()
    found.record("all", filled=True, all_pairs=True)
    assert found.names == {"all"}
    found.record("all", filled=False, all_pairs=True)
    assert not found.names
    found.record("all", filled=False, all_pairs=False)
    found.keep(["other"])
    assert not found.names


def test_a_saturated_lane_is_emptied_from_few_pairs_and_from_all_when_those_do_not_fill_it() -> None:
    found = saturation()
    assert found.order(LANE, 16, PAIRS) is None, "not saturated: merge all heads"
    found.record("all", filled=True, all_pairs=True)
    assert len(found.order(LANE, 16, PAIRS) or ()) == 2
    found.record("all", filled=False, all_pairs=False)
    assert len(found.order(LANE, 16, PAIRS) or ()) == 100


def test_higher_priorities_come_first_and_whole() -> None:
    found = saturation()
    found.record("all", filled=True, all_pairs=True)
    order = found.order(LANE, 16, [*PAIRS, *URGENT])
    assert order is not None
    assert order[:2] == [("k1", 9, 0), ("k0", 5, 0)]
    assert len(order) == 4
