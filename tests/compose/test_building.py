"""What is told before anything is written: steps, chains, workflows and groups that cannot work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from rowlock import (
    RESULT,
    Approval,
    ChainError,
    InvalidArguments,
    InvalidOption,
    InvalidWorkflow,
    Partial,
    Rate,
    Rowlock,
    Workflow,
    chain,
    group,
)
from rowlock.compose.result_types import fits
from rowlock.compose.step import step_of
from rowlock.model import workflow as model
from rowlock.model.job import NewJob
from rowlock.model.workflow import MOST_STEPS, Edge, Planned, Undo, WorkflowPlan, cycle

app = Rowlock("postgresql://nowhere/x")


@app.job
async def extract(source: int) -> list[int]:
    return [source]


@app.job
async def clean(rows: list[int], strict: bool = False) -> dict[str, int]:
    return dict.fromkeys(map(str, rows), int(strict))


@app.job
def load(table: dict[str, int]) -> None: ...


@app.job
async def notify() -> None: ...


@app.job
async def count(rows: list[int]) -> Partial | int:
    return len(rows)


@app.job("by.tenant", gate=lambda rows, **_: f"rows:{len(rows)}")
async def gated(rows: list[int]) -> None: ...


@app.job("four", approval=Approval(four_eyes=True))
async def four(rows: list[int]) -> None: ...


def loose(step: Any) -> Any:  # noqa: ANN401 - what type checkers would refuse
    return step


def test_arguments_of_a_step_are_checked_at_once() -> None:
    with pytest.raises(InvalidArguments, match="source: int"):
        loose(extract).step("x")
    with pytest.raises(InvalidArguments, match="there is no argument 'sauce'"):
        loose(extract).step(sauce=1)
    with pytest.raises(InvalidArguments, match="strict: bool"):
        loose(clean).step(strict="perhaps")
    assert loose(clean).step(strict=True).missing == ["rows"]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"unique_key": "x"}, "Give it to the workflow"),
        ({"idempotency_key": "x"}, "unique_key instead"),
        ({"tenant": "x"}, "Give it to the workflow"),
        ({"submitted_by": "x"}, "Give it to the workflow"),
        ({"session": object()}, "Give it to the workflow or chain"),
        ({"connection": object()}, "Give it to the workflow or chain"),
    ],
)
def test_what_makes_no_sense_for_a_step_is_refused(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidOption, match=advice):
        extract.options(**options).step(1)


def test_options_of_a_step_are_those_of_its_job() -> None:
    step = clean.options(priority=7, run_in="5m", tags=["x"], gate="g", max_age="1h").step([1])
    columns = model.columns_of(step.job.job)
    assert (columns["priority"], columns["delay"], columns["tags"]) == (7, "300.000000 s", ["x"])
    assert (columns["gate_key"], columns["max_age"]) == ("g", "3600.000000 s")


def test_a_gate_made_of_an_argument_that_is_not_known_yet_is_refused() -> None:
    with pytest.raises(InvalidOption, match="known only when the step before has ended"):
        chain(extract, gated)
    chain(extract, gated.options(gate="one"))
    assert gated.step([1, 2]).job.job.gate_key == "rows:2"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((extract, load), r"extract returns list\[int\], but load takes table: dict\[str, int\]"),
        ((clean.step([1]), clean), r"clean returns dict\[str, int\], but clean takes rows: list\[int\]"),
        ((notify, load), "notify returns None, so it passes nothing on, but load needs 'table'"),
        ((count.step([1]), load), "count returns int"),
        ((extract,), "at least two steps"),
        ((extract, clean.step(strict=True), load), None),  # type: ignore[call-arg]  # RESULT is for type checkers
        ((extract, clean.step(RESULT, strict=True), load), None),
        ((extract, notify, notify), None),
    ],
)
def test_a_chain_whose_types_do_not_fit_names_both(steps: tuple[Any, ...], message: str | None) -> None:
    make = loose(chain)
    if message is None:
        assert make(*steps).name
        return
    with pytest.raises(ChainError, match=message):
        make(*steps)


def test_result_needs_a_step_before_it() -> None:
    with pytest.raises(InvalidWorkflow, match="RESULT stands for"):
        chain(extract.step(RESULT), clean)
    with pytest.raises(InvalidWorkflow, match="RESULT stands for"):
        Workflow("w").add(clean.step(RESULT))


def test_a_chain_that_begins_with_a_step_takes_no_arguments() -> None:
    with pytest.raises(ChainError, match="Begin it with the task"):
        loose(chain(extract.step(1), clean))._draft((1,), {})


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


def test_four_eyes_need_a_submitter() -> None:
    flow = Workflow("w")
    flow.add(four.step([1]))
    with pytest.raises(InvalidOption, match="Pass submitted_by"):
        flow.check()
    flow.options(submitted_by="ada").check()


def test_options_of_a_workflow() -> None:
    line = chain(extract, clean)
    with pytest.raises(InvalidOption, match='"reject" or "keep"'):
        line.options(on_conflict=loose("replace"))
    with pytest.raises(InvalidOption, match="both given"):
        line.options(session=object(), connection=object())
    with pytest.raises(InvalidOption, match="unique_key must be"):
        line.options(unique_key="")


def test_a_callback_that_cannot_take_the_results_is_refused() -> None:
    steps = [extract.step(n) for n in range(3)]
    with pytest.raises(ChainError, match=r"passes on list\[list\[int\]\], but clean takes rows: list\[int\]"):
        group(steps, on_success=clean)
    with pytest.raises(InvalidWorkflow, match="at least one step"):
        group([])
    assert group(steps, on_success=notify, name="g").name == "g"


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


def test_a_plan_as_the_store_takes_it() -> None:
    job = NewJob("k", run_in=timedelta(seconds=1.5), meta='{"a": 1}')
    plan = WorkflowPlan(
        [Planned("a", job, '{"x":1}'), Planned("b", job, "{}", any_of=True)], [Edge("a", "b", "finish")], True
    )
    told = json.loads(plan.text())
    assert [(step["name"], step["args"], step["delay"]) for step in told["steps"]] == [
        ("a", {"x": 1}, "1.500000 s"),
        ("b", {}, "1.500000 s"),
    ]
    assert (told["steps"][1]["any_of"], told["steps"][0]["meta"], told["joins"]) == (True, {"a": 1}, True)
    assert told["edges"] == [{"upstream": "a", "downstream": "b", "needs": "finish"}]


class Row(BaseModel):
    n: int


class Wide(Row):
    m: int


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("given", "taken", "fitting"),
    [
        (int, int, True),
        (bool, int, True),
        (int, float, True),
        (float, int, False),
        (int, bool, False),
        (int, str, False),
        (UUID, str, True),
        (str, UUID, True),
        (list[int], list[int], True),
        (list[int], list[float], True),
        (list[int], list[str], False),
        (tuple[int, ...], list[int], True),
        (list, list[int], True),
        (list[Any], list[int], True),
        (dict[str, int], list[int], False),
        (dict[str, int], Row, True),
        (Row, dict[str, int], True),
        (Wide, Row, True),
        (Row, Wide, False),
        (Point, Row, False),
        (int | None, int, False),
        (int, int | None, True),
        (int | str, int | str | None, True),
        (Any, int, True),
        (int, object, True),
        (type(None), int, False),
        (type(None), int | None, True),
    ],
)
def test_which_results_fit_which_parameters(given: object, taken: object, fitting: bool) -> None:
    assert fits(given, taken) is fitting


def test_a_rate_that_is_computed_from_the_arguments_belongs_to_the_step() -> None:
    @app.job("rated", rate=lambda rows, **_: Rate(len(rows), per="1s", key=f"rows:{len(rows)}"))
    async def rated(rows: list[int]) -> None: ...

    assert rated.step([1, 2]).job.job.rate_keys == ("rows:2",)
    assert rated.step([1]).job.job.rate_keys == ("rows:1",)
    with pytest.raises(InvalidOption, match=r"rated: a function computes its gate, rate or refs"):
        step_of(rated)
