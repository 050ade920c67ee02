from __future__ import annotations

from rowlock.model.state import FINAL, SUCCESS, TRANSITIONS, WAITING, State, Verb, reachable


def test_every_state_waits_runs_or_is_final() -> None:
    assert WAITING | {State.RUNNING} | FINAL == set(State)
    assert not WAITING & FINAL
    assert SUCCESS < FINAL


def test_only_a_person_leads_out_of_a_final_state() -> None:
    leading_out = {verb for verb, moves in TRANSITIONS.items() if FINAL & set(moves)}
    assert leading_out == {Verb.RETRY}


def test_every_state_can_be_reached_and_every_other_one_left() -> None:
    reached = {state for moves in TRANSITIONS.values() for states in moves.values() for state in states}
    left = {state for moves in TRANSITIONS.values() for state in moves}
    assert reached == set(State)
    assert left >= set(State) - FINAL


def test_a_verb_that_does_not_apply_leads_nowhere() -> None:
    assert reachable(Verb.CLAIM, State.QUEUED) == {State.RUNNING}
    assert reachable(Verb.CLAIM, State.RUNNING) == frozenset()
