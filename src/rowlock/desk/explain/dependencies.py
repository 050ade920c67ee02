"""Reasons of a job that waits for other steps of its workflow, or for a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.desk.phrases import several, until
from rowlock.model import ids
from rowlock.model.explanation import Reason

if TYPE_CHECKING:
    from rowlock.desk.explain.facts import Facts
    from rowlock.store.database import Record

_WORDS = {"success": "to succeed", "strict": "to succeed without errors", "finish": "to end", "failure": "to fail"}


def workflow_cancelled(facts: Facts) -> Reason | None:
    """The workflow of the job is being cancelled."""
    waits = facts.waits
    if waits is None or waits["workflow_id"] is None or not waits["cancel_requested"]:
        return None
    named = f"{ids.encode_workflow(waits['workflow_id'])} ({waits['workflow']})"
    text = f"Its workflow {named} is being cancelled: it ends as soon as upkeep or the canceller comes to it."
    return Reason("workflow_cancelled", text, _place(waits))


def waits_for_steps(facts: Facts) -> Reason | None:
    """Steps that the job depends on have not ended."""
    waits = facts.waits
    if waits is None or not waits["remaining"]:
        return None
    named = [f"{step['name']!r} ({step['kind']}, {step['state']}) {_WORDS[step['needs']]}" for step in facts.before]
    more = waits["remaining"] - len(named)
    which = "one of " if waits["any_of"] else ""
    text = (
        f"It is a step of workflow {ids.encode_workflow(waits['workflow_id'])} and waits for {which}{'; '.join(named)}"
    )
    text += f"; and {several(more, 'other')}." if more > 0 else "."
    steps = [
        {"step": step["name"], "id": ids.encode(step["job_id"]), "state": step["state"], "needs": step["needs"]}
        for step in facts.before
    ]
    details = {"remaining": waits["remaining"], "any_of": waits["any_of"], "steps": steps}
    return Reason("waits_for_steps", text, _place(waits) | details)


def waits_for_signal(facts: Facts) -> Reason | None:
    """The handler waits for a signal that has not been sent."""
    waits, job = facts.waits, facts.job
    if waits is None or waits["signal"] is None:
        return None
    limit = "" if waits["until"] is None else f"; its time is over {until(waits['until'], facts.now)}"
    text = (
        f"It waits for the signal {waits['signal']!r}{limit}. Send it: "
        f"rowlock jobs signal {job.public_id} {waits['signal']} --payload JSON"
    )
    return Reason("waits_for_signal", text, {"signal": waits["signal"], "until": waits["until"]})


def _place(waits: Record) -> dict[str, object]:
    return {"workflow": ids.encode_workflow(waits["workflow_id"]), "name": waits["workflow"], "step": waits["step"]}
