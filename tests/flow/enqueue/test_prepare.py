"""Options of a kind and of a call become everything of a job but its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock import Gate, InvalidOption, Rate
from rowlock.flow.enqueue.prepare import depends_on_arguments, prepare
from rowlock.model.approval import Approval
from rowlock.model.kind import Kind
from rowlock.model.options import Options


@pytest.mark.parametrize(
    ("kind", "options", "depends"),
    [
        ({}, {}, False),
        ({"gate": "g", "rate": Rate(1, per="1s")}, {"unique_key": "k", "idempotency_key": "i"}, False),
        ({"refs": dict}, {}, True),
        ({"gate": lambda n: f"g{n}"}, {}, True),
        ({"rate": lambda n: Rate(n, per="1s")}, {}, True),
        ({}, {"unique_key": lambda n: f"u{n}"}, True),
        ({}, {"idempotency_key": lambda n: f"i{n}"}, True),
        ({}, {"gate": lambda n: f"g{n}"}, True),
        ({}, {"rate": lambda n: Rate(n, per="1s")}, True),
    ],
)
def test_options_that_functions_compute_depend_on_the_arguments(
    kind: dict[str, Any], options: dict[str, Any], *, depends: bool
) -> None:
    assert depends_on_arguments(Kind("k", **kind), Options(**options)) == depends


def test_the_call_wins_over_the_kind_but_cannot_waive_approval() -> None:
    kind = Kind("k", priority=1, gate="kind's", approval=Approval(2))
    made = prepare(kind, Options(priority=7, gate=Gate("call's", limit=3), submitted_by="ada"), {})
    assert (made.job.priority, made.job.gate_key, made.gate) == (7, "call's", Gate("call's", limit=3))
    assert made.job.approval == Approval(2).code
    assert made.pair == ("k", 7, 0)


def test_keys_and_gates_are_computed_from_the_arguments() -> None:
    options = Options(unique_key=lambda n: f"u{n}", gate=lambda n: f"g{n}", on_conflict="debounce", run_in=5)
    made = prepare(Kind("k"), options, {"n": 4})
    assert (made.job.unique_key, made.job.unique_scope, made.job.gate_key) == ("k:u4", "waiting", "g4")


def test_only_a_job_without_keys_and_times_is_plain() -> None:
    assert prepare(Kind("k"), Options(meta={"a": 1}, tenant="t", priority=3), {}).plain is not None
    for options in (Options(run_in=1), Options(unique_key="k"), Options(tags=["t"]), Options(gate="g")):
        assert prepare(Kind("k"), options, {}).plain is None


def test_four_eyes_need_a_known_submitter() -> None:
    with pytest.raises(InvalidOption, match="Pass submitted_by"):
        prepare(Kind("k", approval=Approval(four_eyes=True)), Options(), {})
