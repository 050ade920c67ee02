"""Follow: a step behind a job that is enqueued already, and may have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowlock.compose.step import Output
from rowlock.errors import InvalidOption, JobNotFound
from rowlock.flow.grow import grow
from rowlock.flow.place import Member
from rowlock.model import ids
from rowlock.model.workflow import NEEDS, Edge, checked_step_name

if TYPE_CHECKING:
    from rowlock.compose.step import Origin, Step
    from rowlock.model.workflow import Needs


async def follow(job_id: int, origin: Origin, step: Step[Any], when: Needs, name: str | None) -> int:
    """Add the step behind the job, whose workflow it joins or becomes; returns the new job's id."""
    if when not in NEEDS:
        message = f"when must be {', '.join(NEEDS)}; got {when!r}."
        raise InvalidOption(message)
    database = step.producer.database()
    # The types are judged before anything is written.
    step.after(Output("", origin.returns), origin.handler.name).checked()
    (row,) = await database.fetch("workflow_adopt", job=job_id)
    if row["workflow_id"] is None:
        message = f"There is no job {ids.encode(job_id)}. Finished jobs are removed after their retention."
        raise JobNotFound(message)
    (own,) = await database.fetch("workflow_step_of", id=job_id)
    chosen = checked_step_name(name) if name is not None else await _free(step, row["workflow_id"])
    filled = step.after(Output(str(own["name"]), origin.returns), origin.handler.name).checked()
    found = await grow(job_id, None, [Member(chosen, filled)], [Edge(str(own["name"]), chosen, when)])
    return found.steps[0].job_id


async def _free(step: Step[Any], workflow_id: int) -> str:
    rows = await step.producer.database().fetch("workflow_names", id=workflow_id, prefix=step.kind)
    taken, n = {str(row["name"]) for row in rows}, 1
    while (chosen := step.kind if n == 1 else f"{step.kind}-{n}") in taken:
        n += 1
    return chosen
