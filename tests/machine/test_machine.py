"""The store against the oracle: random statements of every kind, and after each of them every change is accounted for.

Steps: ROWLOCK_MACHINE_STEPS, for each of the tests. A failure prints the steps that lead to it, and how to run them again.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.machine.bench import Bench
from tests.machine.machine import Machine
from tests.machine.rules import AtOnce, Flows, Gates, Jobs, Keys, Orders, Time

STEPS: Final = int(os.environ.get("ROWLOCK_MACHINE_STEPS", "1000"))
LENGTH: Final = 40
"""Steps of one example."""


class Lives(Jobs, Orders, Time):
    """One job after the other, and what becomes of it."""


class Keyed(Keys, Jobs, Orders, Time):
    """Keys held, replaced, given back, retried."""


class Limited(Gates, Jobs, Orders, Time):
    """Places at gates and lanes, and turns of rates."""


class Composed(Flows, Jobs, Orders, Time):
    """Steps, edges, compensation, signals."""


class Together(AtOnce, Keys, Gates, Flows, Jobs, Orders):
    """Everything that can meet at one row."""


@pytest.mark.timeout(0 if "ROWLOCK_MACHINE_STEPS" in os.environ else 60)
@pytest.mark.parametrize("machine", [Lives, Keyed, Limited, Composed, Together], ids=lambda m: m.__name__.lower())
def test_the_store_keeps_to_the_oracle(machine: type[Machine], database_url: str, record_property: object) -> None:
    with Bench.at(database_url) as bench:
        run_state_machine_as_test(
            lambda: machine(bench),
            settings=settings(
                max_examples=max(1, STEPS // LENGTH),
                stateful_step_count=LENGTH,
                derandomize="ROWLOCK_MACHINE_STEPS" not in os.environ,
                database=None,
                deadline=None,
                print_blob=True,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
        print(f"{bench.steps} steps, {bench.examples} examples, {bench.waits} waits, {bench.collisions} collisions")
