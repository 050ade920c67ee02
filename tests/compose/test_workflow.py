"""Workflows: names, edges, cycles and undo steps are checked when they are added or enqueued."""

from __future__ import annotations

import json

import pytest
from tests.compose.tasks import clean, extract, four, load, loose, notify

from rowlock import (
    ChainError,
    InvalidArguments,
    InvalidOption,
    InvalidWorkflow,
    Rate,
    Workflow,
)
from rowlock.model.workflow import MOST_STEPS, Edge, Planned, Undo, WorkflowPlan, cycle


def test_a_workflow_takes_outputs_of_its_own_steps_only() -> None:
    one, other = Workflow("one"), Workflow("other")
    first = one.add(extract.step(1))
    with pytest.raises(InvalidWorkflow, match="a step of another workflow"):
        other.add(clean.step(first.output))
    with pytest.raises(InvalidWorkflow, match="'extract' is a step of another workflow"):
        other.add(notify, after=[first])
    with pytest.raises(ChainError, match=r"load takes table: dict\[str, int\], but the output of 'extract'"):
        one.add(loose(load).step(first.output))
    with pytest.raises(ChainError, match=r"the output of 'extract' is list\[list\[int\]\]"):
        one.add(loose(clean).step([first.output]))
    with pytest.raises(InvalidArguments, match="outputs and other values"):
        one.add(loose(clean).step([first.output, 3]))


def test_names_and_edges_of_a_workflow() -> None:
    flow = Workflow("w")
    assert [flow.add(notify).name for _ in range(3)] == ["notify", "notify-2", "notify-3"]
    with pytest.raises(InvalidWorkflow, match="has a step 'notify' already"):
        flow.add("notify", notify)
    with pytest.raises(InvalidArguments, match="'source' is missing"):
        flow.add(loose(extract))
    with pytest.raises(InvalidWorkflow, match="Expected a task or a step"):
        flow.add(loose("x"), loose(3))
    with pytest.raises(InvalidOption, match="when must be"):
        flow.add(notify, when=loose("later"))
    flow.add("late", notify, after=["nobody"])
    with pytest.raises(InvalidWorkflow, match="There is no step 'nobody', which 'late' is tied to; there are late"):
        flow.check()


def test_a_cycle_is_told_with_its_path() -> None:
    flow = Workflow("w")
    flow.add("start", notify)
    flow.add("a", notify, after=["start", "c"])
    flow.add("b", notify, after=["a"])
    flow.add("c", notify, after=["b"])
    flow.add("end", notify, after=["c"])
    with pytest.raises(InvalidWorkflow, match=r"wait for each other.*: a → b → c → a"):
        flow.check()
    assert cycle([Edge("x", "x")]) == ["x", "x"]
    assert cycle([Edge(str(n), str(n + 1)) for n in range(5000)]) is None


def test_too_many_steps_are_refused() -> None:
    flow = Workflow("w")
    for _ in range(MOST_STEPS):
        flow.add(notify)
    with pytest.raises(InvalidWorkflow, match="at most 20,000 steps"):
        flow.add(notify)
    with pytest.raises(InvalidWorkflow, match="at least one step"):
        Workflow("empty").check()
    with pytest.raises(InvalidWorkflow, match="printable"):
        Workflow("")


def test_an_undo_step_must_fit_what_it_undoes() -> None:
    flow = Workflow("w")
    with pytest.raises(ChainError, match=r"The undone step 'extract' returns list\[int\], but load takes"):
        flow.add(extract.step(1), undo=load)
    flow.add(extract.step(1), undo=clean)


def test_the_name_of_an_undo_step_is_its_own() -> None:
    flow = Workflow("w")
    flow.add("undo b", notify)
    flow.add("a", notify, undo=notify)
    flow.add("undo c", notify)
    flow.add("c", notify)
    for name, undo in (("undo a", None), ("b", notify)):
        with pytest.raises(InvalidWorkflow, match=rf"'undo [ab]' is the name of the undo step of '{name[-1]}'"):
            flow.add(name, notify, undo=undo)


def test_an_undo_step_is_a_job_with_all_its_options() -> None:
    flow = Workflow("w")
    with pytest.raises(InvalidOption, match="priority must be"):
        flow.add(notify, undo=notify.options(priority=101))
    with pytest.raises(InvalidOption, match="cannot have unique_key of its own"):
        flow.add(notify, undo=notify.options(unique_key="x"))
    undo = notify.options(
        priority=5, gate="g", tags=["blue"], refs={"project": 7}, meta={"a": 1}, run_in="2s", max_attempts=3,
        rate=Rate(10, per="1m", key="r"), weight=2, approval=True, expires_in="1h", max_age="2h",
    )  # fmt: skip
    made = undo.step().prepared(undo.step().options).job
    (step,) = json.loads(WorkflowPlan([Planned("a", made, "{}", undo=Undo(made, "{}"))]).text())["steps"]
    assert step["undo"] == {name: value for name, value in step.items() if name not in ("name", "undo")}
    assert {"gate_key", "tags", "refs", "meta", "delay", "rate_keys", "rate_weight", "approval", "max_age"} <= {*step}
    flow.add(extract.step(1), undo=four)
    with pytest.raises(InvalidOption, match="four must be approved by a person other"):
        flow.check()
    flow.options(submitted_by="ada").check()
