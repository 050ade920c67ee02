"""Plans of workflows as they are stored."""

from __future__ import annotations

import json
from datetime import timedelta

from rowlock.model.job import NewJob
from rowlock.model.workflow import Edge, Planned, WorkflowPlan


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
