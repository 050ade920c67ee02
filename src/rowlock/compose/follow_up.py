"""Follow: a step behind a job that is enqueued already, and may have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowlock.compose.step import Output
from rowlock.errors import InvalidOption
from rowlock.flow.enqueue.plan import Member
from rowlock.flow.enqueue.workflow_growth import grow
from rowlock.model.workflow import NEEDS, Edge, checked_step_name

if TYPE_CHECKING:
    from rowlock.compose.handle_origin import Origin
    from rowlock.compose.step import Step
    from rowlock.model.workflow import Needs


async def follow(job_id: int, origin: Origin, step: Step[Any], when: Needs, name: str | None) -> tuple[int, str]:
    """Add the step behind the job, whose workflow it joins or becomes; returns the new job's id, created or kept."""
    if when not in NEEDS:
        message = f"when must be {', '.join(NEEDS)}; got {when!r}."
        raise InvalidOption(message)
    database = step.producer.database()
    # The types are judged before anything is written.
    step.after(Output("", origin.returns), origin.handler.name).checked()
    found = await database.fetch("workflow_step_of", id=job_id)
    # A plain job becomes the first step of a workflow with the statement that adds the second, under its kind's name.
    own, workflow = (str(found[0]["name"]), found[0]["workflow_id"]) if found else (origin.handler.name, None)
    filled = step.after(Output(own, origin.returns), origin.handler.name).checked()
    while True:
        chosen = checked_step_name(name) if name is not None else await _free(step, own, workflow)
        made = await grow(job_id, None, [Member(chosen, filled)], [Edge(own, chosen, when)])
        if made.steps[0].what == "created" or name is not None:
            return made.steps[0].job_id, made.steps[0].what
        # Somebody else has taken the name at this moment: this step is another one.
        workflow = made.workflow_id


async def _free(step: Step[Any], own: str, workflow_id: int | None) -> str:
    rows = await step.producer.database().fetch("workflow_names", id=workflow_id or 0, prefix=step.kind)
    taken, n = {own, *(str(row["name"]) for row in rows)}, 1
    while (chosen := step.kind if n == 1 else f"{step.kind}-{n}") in taken:
        n += 1
    return chosen
