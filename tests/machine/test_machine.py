"""The store against the oracle: random statements of every kind, and after each of them every change is accounted for.

A failure prints its steps and a blob; CONTRIBUTING.md says how to run them again, and for how long you like.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, __version__, reproduce_failure, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.machine.composed_rules import Arrangements
from tests.machine.connections import MachineDatabase
from tests.machine.job_rules import step_of

LONG: Final = "ROWLOCK_MACHINE_STEPS" in os.environ
"""Only then is there time for fresh seeds, and for looking for the shortest way to a failure."""
STEPS: Final = int(os.environ.get("ROWLOCK_MACHINE_STEPS", "1500"))
BLOB: Final = os.environ.get("ROWLOCK_MACHINE_BLOB")
"""What reproduce_failure was told: only these steps are run."""
LENGTH: Final = 50
"""Steps of one example."""
RUNS: Final = {"claim_some": 6, "claim_one": 2, "finish": 5, "give_back": 4, "report": 3, "ask_settled": 1}
TIMES: Final = {"advance": 2, "upkeep": 3, "rescue": 2, "disown": 1}
ORDERS: Final = {"cancel": 4, "edit": 1, "answer": 2, "retry": 2, "stop": 1, "reprioritise": 1}


class Lives(Arrangements):
    """One job after the other, and what becomes of it."""

    step = step_of(
        {"enqueue": 3, "enqueue_for_approval": 2, "enqueue_with_times": 2, "prune": 1, "orphan": 1, "save": 2}
        | RUNS
        | TIMES
        | ORDERS
        | {"again": 2, "lapse": 2, "enqueue_with_times": 4, "prune": 2, "save": 3}
    )


class Keyed(Arrangements):
    """Keys held, replaced, given back, retried; several of one key running."""

    keys: Final = {
        "enqueue_keyed": 8,
        "enqueue_both": 6,
        "enqueue_many": 5,
        "enqueue_once": 1,
        "prune": 1,
        "suspend": 1,
    }
    step = step_of(RUNS | TIMES | ORDERS | keys | {"pile_up": 5, "rescue": 4})


class Answered(Arrangements):
    """Approvals given, voided by other arguments, and given again."""

    asked: Final = {"enqueue_for_approval": 5, "enqueue_keyed": 4, "enqueue_limited": 2}
    ahead: Final = {"approve_ahead": 3, "ask_rules": 2}
    step = step_of(
        asked | TIMES | {"answer": 10, "edit": 5, "claim_some": 3, "finish": 2, "give_back": 2, "retry": 2} | ahead
    )


class Asked(Arrangements):
    """Orders of principals with and without the right to give them."""

    asked: Final = {"enqueue_owned": 6, "ask": 12, "ask_many": 3}
    step = step_of(asked | {"claim_some": 4, "claim_one": 2, "finish": 3, "give_back": 1, "answer": 1, "advance": 1})


class Limited(Arrangements):
    """Places at gates and lanes, and turns of rates."""

    step = step_of(
        {"enqueue_limited": 9, "enqueue_metered": 4, "burst": 1, "pause_rate": 3, "set_limit": 1}
        | RUNS
        | TIMES
        | ORDERS
    )


class Composed(Arrangements):
    """Steps, edges, compensation, signals."""

    flows: Final = {"start": 4, "grow": 1, "cancel_flow": 1, "retry_step": 2, "suspend": 2, "signal": 2, "overdue": 1}
    step = step_of(
        flows
        | {"enqueue": 1, "prune": 1, "put_right": 1, "claim_released": 3}
        | RUNS
        | TIMES
        | ORDERS
        | {"claim_some": 8, "finish": 8}
    )


class Together(Arrangements):
    """Two connections at the same rows: claims, ends, orders, rescues."""

    many: Final = {"enqueue": 1, "enqueue_keyed": 3, "enqueue_limited": 3, "enqueue_for_approval": 1, "start": 2}
    at_once: Final = {"both": 14, "hold_open": 5, "meanwhile": 4, "put_right": 1}
    step = step_of(many | at_once | {"claim_some": 5, "claim_one": 3, "finish": 1, "set_limit": 1, "advance": 1})


class Fair(Arrangements):
    """Tenants that take turns, and jobs that rise the longer they wait."""

    waits: Final = {"enqueue_shared": 9, "claim_fairly": 5, "age": 3, "claim_released": 2, "reprioritise": 1}
    step = step_of(waits | {"claim_some": 2, "finish": 4, "give_back": 3, "advance": 1, "rescue": 1, "upkeep": 1})


class Scheduled(Arrangements):
    """Slots fired by readings old and new, around edits, pauses and removals; locks, in between."""

    fired: Final = {"fire": 12, "advance": 6, "schedule": 5, "set_schedule": 4, "unschedule": 1, "look_around": 2}
    locks: Final = {"lock": 8, "lose_locker": 1}
    step = step_of(fired | locks | {"claim_some": 3, "finish": 2, "give_back": 1, "cancel": 1, "prune": 1})


MACHINES: Final = (Lives, Keyed, Answered, Asked, Limited, Composed, Together, Fair, Scheduled)


@pytest.mark.timeout(0 if LONG else 180)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.__name__.lower())
def test_the_store_keeps_to_the_oracle(machine: type[Arrangements], database_url: str) -> None:
    again = reproduce_failure(__version__, (BLOB or "").encode())
    with MachineDatabase.at(database_url) as db:
        run_state_machine_as_test(
            again(lambda: machine(db)) if BLOB else lambda: machine(db),  # type: ignore[arg-type]
            settings=settings(
                max_examples=max(1, STEPS // LENGTH),
                stateful_step_count=LENGTH,
                derandomize=not LONG,
                database=None,
                deadline=None,
                print_blob=True,
                phases=[Phase.generate, Phase.shrink] if LONG else [Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
        sys.stdout.write(f"{db.steps} steps, {db.examples} examples: {db.done.most_common()}\n")
