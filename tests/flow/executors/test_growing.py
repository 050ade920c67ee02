"""A job in a child process adds steps to its workflow: its worker writes them, the child opens no database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.flow.executors import jobs

if TYPE_CHECKING:
    from rowlock import Rowlock


@pytest.mark.parametrize("kind", ["process.grows", "process.grows.async"])
async def test_a_child_grows_its_workflow_through_its_worker(app: Rowlock, kind: str) -> None:
    job = await (jobs.process_grows if kind == "process.grows" else jobs.process_grows_async).enqueue()
    async with app.worker():
        *names, refused, database = await job.wait(timeout=30)
        workflow = (await job.job()).workflow_id
        assert workflow is not None
        view = await app.workflows.wait(workflow, timeout=20)
    assert names == [f"{kind}/neighbour-1", f"{kind}/neighbour-2", "named"]
    assert "no step 'nobody'" in refused
    assert database == "no database: True"
    assert {step.name: str(step.state) for step in view.steps} == dict.fromkeys([kind, *names], "completed")
