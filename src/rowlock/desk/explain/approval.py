"""The reason of a pending job: who may approve it, how many must, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowlock.desk.phrases import loss_text, when
from rowlock.model.approval import Approval
from rowlock.model.explanation import Reason
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.desk.explain.facts import Facts


def approval(facts: Facts) -> Reason | None:
    """The job waits for approval, or was held for a person after it was lost."""
    job, row = facts.job, facts.row
    if job.state is not State.PENDING:
        return None
    held = row["last_outcome"] in ("lost", "died")
    since = row["last_ended_at"] if held else row["act_at"] if row["act_verb"] == "retry" else job.created_at
    loss = "The process it ran in died" if row["last_outcome"] == "died" else loss_text(job.errors)
    why = (
        f"{loss} ({when(since, facts.now)}) and its kind says to hold such jobs for a person"
        if held
        else f"It has been awaiting approval since {when(since, facts.now)}"
    )
    given = tuple(row["approvers"] or ())
    text = f"{why}; {_whose(facts, given)}. Decide with: rowlock jobs approve {job.public_id} (or reject)"
    details: dict[str, Any] = {"since": since, "approvers": given, "answer_by": row["answer_by"]}
    return Reason("held" if held else "approval", text, details)


def _whose(facts: Facts, given: tuple[str, ...]) -> str:
    """Who may approve, how many must, and until when."""
    needed = Approval.of(facts.row["approval"])
    # A job that is held after its worker died was approved, or needs none.
    asked = facts.row["approval"] & 3 == 1
    others = ()
    if needed.four_eyes or (asked and not facts.row["own_approval"]):
        others = (facts.job.submitted_by, *facts.row["editors"])
    excluded = list(dict.fromkeys(name for name in (*others, *given) if name))
    who = "anyone with jobs:approve" + (f" except {' and '.join(excluded)}" if excluded else "") + " may give it"
    if needed.approvers > 1:
        so_far = f", by {', '.join(given)}" if given else ""
        who += f"; {len(given)} of {needed.approvers} approvals are given{so_far}"
    until = facts.row["answer_by"]
    return who + (f"; without an answer it expires {when(until, facts.now)}" if until else "")
