from __future__ import annotations

from rowlock.flow.claim.fairness import Fairness


def test_a_pair_that_was_idle_hoards_no_credit() -> None:
    turns, a, b = Fairness(), ("k", 0, 1), ("k", 0, 2)
    for _ in range(100):
        turns.record([a, b], [a] * 10)
    assert turns.debts([a, b]) == [10, 0]


def test_pairs_that_were_served_alike_owe_nothing() -> None:
    fairness, a, b = Fairness(), ("k", 0, 1), ("k", 0, 2)
    fairness.record([a, b], [a, b])
    assert fairness.debts([a, b]) == [0, 0]
    fairness.record([a, b], [a, a])
    assert fairness.debts([a, b]) == [2, 0]
    assert fairness.debts([]) == []
