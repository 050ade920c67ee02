"""Reasons of a running job whose worker is silent or whose handler reports nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk.phrases import span_text, when
from rowlock.model.explanation import Reason

if TYPE_CHECKING:
    from rowlock.desk.explain.facts import Facts

_ORPHANS_EVERY: Final = timedelta(seconds=30)


def worker_silent(facts: Facts) -> Reason | None:
    """The job's worker is silent: when the job will be rescued, if a worker is there to do it."""
    seen = facts.row["worker_seen_at"]
    stale = next((lane.heartbeat_timeout for lane in facts.lanes if lane.name == facts.job.lane), timedelta(seconds=60))
    if seen is None:
        text, rescue = "The row of its worker is gone", facts.now + _ORPHANS_EVERY
    elif facts.now - seen < timedelta(seconds=15):
        return None
    else:
        text, rescue = f"Its worker {facts.job.worker} has been silent since {when(seen, facts.now)}", seen + stale
    rescuers = [worker for worker in facts.workers if worker.works and worker.lanes != []]
    text += (
        f"; a live worker takes the job back at about {when(rescue, facts.now)}."
        if rescuers
        else ", and no live worker is there to take the job back. Start one: rowlock worker"
    )
    return Reason("worker_silent", text, {"worker": facts.job.worker, "seen_at": seen, "rescue_at": rescue})


def stalls(facts: Facts) -> Reason | None:
    """The job has reported nothing for half of its lane's progress_timeout, or longer."""
    limit = next((lane.progress_timeout for lane in facts.lanes if lane.name == facts.job.lane), None)
    since = max(filter(None, (facts.job.claimed_at, facts.job.last_progress_at)), default=None)
    if limit is None or since is None or facts.now - since < limit / 2:
        return None
    what = "last reported" if facts.job.last_progress_at == since else "was claimed, and has reported nothing,"
    text = (
        f"It {what} {when(since, facts.now)}; lane {facts.job.lane} gives a job up after {span_text(limit)} without "
        f"progress, at about {when(since + limit, facts.now)}. Its handler should call ctx.progress()."
    )
    return Reason("stalls", text, {"since": since, "progress_timeout": limit, "lost_at": since + limit})
