"""Reasons of rates: the job waits for its turn, its rate is paused, or its lane's rate is used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.desk.phrases import until
from rowlock.model.explanation import Reason
from rowlock.model.rate import LANE
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.desk.explain.facts import Facts
    from rowlock.model.rate import RateView


def rate_limited(facts: Facts) -> Reason | None:
    """The job's rate gave it a later turn, or would do so now."""
    job, own = facts.job, [view for view in facts.rates if not view.key.startswith(LANE)]
    if job.state is not State.QUEUED or not own:
        return None
    paused = next((view for view in own if view.paused_until is not None), None)
    waits = bool(facts.row["rate_turn"]) and job.run_after > facts.now
    if paused is not None and (waits or facts.due):
        return _paused("rate_paused", f"Rate {paused.key!r}", paused, facts)
    if waits:
        names = " and ".join(f"{view.key!r} ({view.rate})" for view in own)
        text = f"It waits for its turn at rate {names}: next {until(job.run_after, facts.now)}."
        details = {"keys": [view.key for view in own], "run_after": job.run_after}
        return Reason("rate_limited", text, details)
    full = next((view for view in own if view.available <= 0 or view.waiting), None)
    if not facts.due or full is None:
        return None
    busy = f" until {until(full.busy_until, facts.now)}" if full.busy_until is not None else ""
    text = f"Rate {full.key!r} ({full.rate}) is used up{busy}: it gets a turn as soon as a worker comes to it."
    return Reason("rate_used_up", text, {"keys": [full.key], "busy_until": full.busy_until})


def lane_rate(facts: Facts) -> Reason | None:
    """The rate of the job's lane is paused or used up."""
    view = next((view for view in facts.rates if view.key.startswith(LANE)), None)
    if view is None or not facts.due:
        return None
    lane = view.key.removeprefix(LANE)
    if view.paused_until is not None:
        return _paused("lane_paused", f"Lane {lane!r}", view, facts)
    if view.available > 0:
        return None
    text = f"Lane {lane!r} starts {view.rate} over all workers, and has for now."
    return Reason("lane_rate", text, {"lane": lane, "rate": str(view.rate)})


def _paused(code: str, what: str, view: RateView, facts: Facts) -> Reason:
    assert view.paused_until is not None  # noqa: S101 - its callers have looked
    by = f" by {view.paused_by}" if view.paused_by else ""
    ends = until(view.paused_until, facts.now)
    text = f"{what} is paused{by}: it goes on {ends}. Resume it now: rowlock limits resume {view.key}"
    return Reason(code, text, {"key": view.key, "until": view.paused_until, "by": view.paused_by})
