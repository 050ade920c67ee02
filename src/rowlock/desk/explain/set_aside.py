"""The reason of a job that a worker has set aside, because the database does not take a write of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.desk.phrases import span_text
from rowlock.model.explanation import Reason

if TYPE_CHECKING:
    from rowlock.desk.explain.facts import Facts


def set_aside(facts: Facts) -> Reason | None:
    """A worker cannot write the job's next step: what the database says, and which session holds the lock."""
    for worker in facts.workers:
        for one in worker.set_aside:
            if one.job_id == facts.job.id:
                text = (
                    f"Worker {worker.name} has set it aside for {span_text(one.lasted)} and tries again: the database "
                    f"does not take its {one.step}: {one.error.rstrip('.')}."
                )
                text += f" It waits for {one.blocked_by}: end that transaction." if one.blocked_by else ""
                details = {"worker": worker.name, "step": one.step, "error": one.error, "seconds": one.lasted}
                return Reason("set_aside", text, {**details, "blocked_by": one.blocked_by})
    return None
