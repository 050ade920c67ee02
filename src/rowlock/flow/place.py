"""Place: a plan of steps -> rows. Like an enqueue of many kinds at once: registered, written, told to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.wake import Pair
    from rowlock.store.caller import Ask


class PlacedStep(NamedTuple):
    """One step as it was written, or found."""

    name: str
    job_id: int
    kind: str
    priority: int
    share: int
    state: str
    run_after: datetime


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a plan. what: created, kept (the key was taken), or why nothing was written."""

    workflow_id: int
    what: str
    steps: Sequence[PlacedStep] = ()

    @property
    def lows(self) -> dict[Pair, datetime]:
        """The lowest run_after that became claimable, per kind, priority and share."""
        lows: dict[Pair, datetime] = {}
        for step in self.steps if self.what == "created" else ():
            if step.state == State.QUEUED:
                pair = (step.kind, step.priority, step.share)
                lows[pair] = min(step.run_after, lows.get(pair, step.run_after))
        return lows

    @property
    def created(self) -> list[int]:
        """The jobs that were not there before, those that wait for none first."""
        return [step.job_id for step in self.steps] if self.what == "created" else []


def placed(rows: Sequence[Sequence[object]]) -> Placed:
    """Read the answer of a statement that writes a plan."""
    first = rows[0]
    steps = [PlacedStep._make(cast("tuple[str, int, str, int, int, str, datetime]", row[2:9])) for row in rows if row[2]]
    return Placed(cast("int", first[0]), str(first[1]), steps)


def write(statement: str, values: Mapping[str, object]) -> Generator[Ask, list[Sequence[object]], Placed]:
    """Write a plan; what a rule approves in advance is approved with it."""
    rows = yield statement, values
    found = placed(rows)
    asked = [step.job_id for step in found.steps if step.state == State.PENDING] if found.what == "created" else []
    if not asked:
        return found
    moved = {row[0]: row for row in (yield "auto_approve", {"ids": asked})}
    steps = [
        step._replace(state=str(moved[step.job_id][1]), run_after=cast("datetime", moved[step.job_id][2]))
        if step.job_id in moved
        else step
        for step in found.steps
    ]
    return Placed(found.workflow_id, found.what, steps)
