"""Follow-ups: job.then(…) adds a step behind a job that is enqueued already, and may have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowlock.compose.step import Output
from rowlock.errors import InvalidOption
from rowlock.flow.enqueue.workflow_additions import add_steps
from rowlock.flow.enqueue.workflow_insert import NamedStep
from rowlock.model.workflow import NEEDS, Edge, checked_step_name

if TYPE_CHECKING:
    from rowlock.compose.step import Step
    from rowlock.compose.task_services import TaskServices
    from rowlock.model.workflow import Needs


async def add_follow_up(
    job_id: int, services: TaskServices, step: Step[Any], when: Needs, name: str | None
) -> tuple[int, str]:
    """Add the step to the job's workflow, which a plain job gets now; returns the new job's id, and created or kept."""
    if when not in NEEDS:
        message = f"when must be {', '.join(NEEDS)}; got {when!r}."
        raise InvalidOption(message)
    database = step.producer.database()
    # Types are checked before anything is written.
    step.after(Output("", services.returns), services.handler.name).checked()
    found = await database.fetch("workflow_step_of", id=job_id)
    # A plain job becomes the first step of a workflow with the statement that adds the second, under its kind's name.
    own, workflow = (str(found[0]["name"]), found[0]["workflow_id"]) if found else (services.handler.name, None)
    filled = step.after(Output(own, services.returns), services.handler.name).checked()
    while True:
        chosen = checked_step_name(name) if name is not None else await _free_name(step, own, workflow)
        made = await add_steps(job_id, None, [NamedStep(chosen, filled)], [Edge(own, chosen, when)])
        if made.steps[0].what == "created" or name is not None:
            return made.steps[0].job_id, made.steps[0].what
        # Another step took the name at this moment.
        workflow = made.workflow_id


async def _free_name(step: Step[Any], own: str, workflow_id: int | None) -> str:
    rows = await step.producer.database().fetch("workflow_names", id=workflow_id or 0, prefix=step.kind)
    taken, n = {own, *(str(row["name"]) for row in rows)}, 1
    while (chosen := step.kind if n == 1 else f"{step.kind}-{n}") in taken:
        n += 1
    return chosen
