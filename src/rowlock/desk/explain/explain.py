"""Puts the reasons why a job is not running in order, the most decisive first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.desk.explain import reasons
from rowlock.model.explanation import Explanation
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock.desk.explain.facts import Facts
    from rowlock.model.explanation import Reason


def explain(facts: Facts) -> Explanation:
    """The explanation that these facts give; reads nothing."""
    job = facts.job
    name = f"Job {job.public_id} ({job.kind})"
    if job.is_final:
        found = _holding(reasons.FINAL, facts)
    elif job.state is State.RUNNING:
        found = _holding(reasons.RUNNING, facts)
    else:
        found = _holding(reasons.WAITING, facts) or [reasons.ready(facts)]
        found += _holding(reasons.REMARKS, facts)
    return Explanation(job, f"{name} is {job.state}. {found[0].text}", found, facts.position)


def _holding(looks: Iterable[Callable[[Facts], Reason | None]], facts: Facts) -> list[Reason]:
    return [reason for look in looks if (reason := look(facts)) is not None]
