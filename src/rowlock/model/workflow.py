"""Workflow: jobs that wait for jobs. WorkflowPlan: one before it is written; the views: one as it is read back."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from rowlock.errors import InvalidWorkflow
from rowlock.model import ids
from rowlock.model.redact import OUTPUT
from rowlock.model.stored_args import OUTPUTS, RATE, with_skills

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from rowlock.model.job import NewJob
    from rowlock.model.state import State

Needs = Literal["success", "strict", "finish", "failure"]
"""How a step before must end: success (errors allowed), strict (no errors), finish (any end) or failure."""
NEEDS: Final = ("success", "strict", "finish", "failure")
MOST_STEPS: Final = 20_000
"""Steps of one workflow. Ten thousand take about a second to write, under one lock."""
_LONGEST_NAME: Final = 200
_STANDS: Final = f'{{"{OUTPUT}":'
"""Marks arguments that refer to another step's result; in a user's text the quotes would be escaped."""


class WorkflowState(StrEnum):
    """The state of a workflow."""

    RUNNING = "running"
    COMPENSATING = "compensating"
    """Its steps are being undone, the last one first."""
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether it has ended; only a person's retry leads out."""
        return self not in (WorkflowState.RUNNING, WorkflowState.COMPENSATING)

    @property
    def is_success(self) -> bool:
        """Whether it completed, with errors or without."""
        return self in (WorkflowState.COMPLETED, WorkflowState.COMPLETED_WITH_ERRORS)


@dataclass(frozen=True, slots=True)
class Edge:
    """The step `downstream` waits for the step `upstream`. met None: that one has not ended."""

    upstream: str
    downstream: str
    needs: Needs = "success"
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Undo:
    """The job that undoes a completed step."""

    job: NewJob
    args: str


@dataclass(frozen=True, slots=True)
class Planned:
    """One step of a plan. args: JSON, in which `{"$output": name}` stands for the result of another step."""

    name: str
    job: NewJob
    args: str
    any_of: bool = False
    undo: Undo | None = None


@dataclass(frozen=True, slots=True)
class WorkflowPlan:
    """Steps and the edges between them; an edge may name steps of the workflow it is added to."""

    steps: Sequence[Planned]
    edges: Sequence[Edge] = ()
    joins: bool = False
    """Whether jobs that wait for the job that adds this plan also wait for its steps."""

    def text(self) -> str:
        """The plan as JSON. Steps made with the same options share all but name and arguments."""
        shared: dict[int, str] = {}
        steps = []
        for step in self.steps:
            columns = shared.get(id(step.job))
            if columns is None:
                columns = shared[id(step.job)] = json.dumps(columns_of(step.job))[1:-1]
            undo = "" if step.undo is None else f',"undo":{_undo_text(step.undo)}'
            any_of = ',"any_of":true' if step.any_of else ""
            steps.append(f'{{"name":{json.dumps(step.name)},"args":{stored_text(step)}{any_of}{undo},{columns}}}')
        edges = [
            f'{{"upstream":{json.dumps(edge.upstream)},"downstream":{json.dumps(edge.downstream)},"needs":"{edge.needs}"}}'
            for edge in self.edges
        ]
        joins = ',"joins":true' if self.joins else ""
        return f'{{"steps":[{",".join(steps)}],"edges":[{",".join(edges)}]{joins}}}'


def columns_of(job: NewJob) -> dict[str, Any]:
    """The columns of a step's job without its arguments; empty columns are left out."""
    values = {
        "kind": job.kind,
        "priority": job.priority,
        "share": job.share,
        "approval": int(job.approval),
        "max_attempts": job.max_attempts,
        "gate_key": job.gate_key,
        "tags": None if job.tags is None else list(job.tags),
        "refs": None if job.refs is None else json.loads(job.refs),
        "meta": None if job.meta is None else json.loads(job.meta),
        "delay": _seconds(job.run_in),
        "expires_in": _seconds(job.expires_in),
        "max_age": _seconds(job.max_age),
        "answer_in": _seconds(job.answer_in),
        "rate_keys": None if job.rate_keys is None else list(job.rate_keys),
        "rate_weight": job.rate_weight if job.rate_keys and job.rate_weight > 1 else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def stored_text(step: Planned | Undo) -> str:
    """Its arguments, with the skills that a worker needs to run them."""
    skills = [RATE] * (step.job.rate_keys is not None) + [OUTPUTS] * (_STANDS in step.args)
    return with_skills(step.args, *skills)


def _undo_text(undo: Undo) -> str:
    return f'{{"args":{stored_text(undo)},{json.dumps(columns_of(undo.job))[1:]}'


def _seconds(value: timedelta | None) -> str | None:
    return None if value is None else f"{value.total_seconds():f} s"


def with_outputs(text: str, outputs: Mapping[str, str | Sequence[str]]) -> str:
    """Add arguments that are results of other steps. outputs: argument to a step's name, or to several for a list."""
    if not outputs:
        return text
    stands = {
        name: {OUTPUT: step} if isinstance(step, str) else [{OUTPUT: each} for each in step]
        for name, step in outputs.items()
    }
    more = json.dumps(stands, separators=(",", ":"))
    return more if text == "{}" else f"{text[:-1]},{more[1:]}"


def checked_step_name(name: object) -> str:
    """Return the name of a step or workflow if it can be stored and shown."""
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        message = f"A step or workflow has a name of 1 to {_LONGEST_NAME} printable characters; got {name!r}."
        raise InvalidWorkflow(message)
    return name


def undo_name(step: str) -> str:
    """The reserved name of the step that undoes this one."""
    return f"undo {step}"


def check(names: Collection[str], edges: Sequence[Edge]) -> None:
    """Refuse a workflow that could never run: no steps or too many, edges to unknown steps, cycles."""
    if not names:
        message = "A workflow needs at least one step. Add some with add()."
        raise InvalidWorkflow(message)
    if len(names) > MOST_STEPS:
        message = (
            f"A workflow has at most {MOST_STEPS:,} steps; this one has {len(names):,}. Let a step do several "
            "things, or let steps enqueue workflows of their own."
        )
        raise InvalidWorkflow(message)
    for edge in edges:
        for name, other in ((edge.upstream, edge.downstream), (edge.downstream, edge.upstream)):
            if name not in names:
                message = f"There is no step {name!r}, which {other!r} is tied to; there are {_some(names)}."
                raise InvalidWorkflow(message)
    path = cycle(edges)
    if path is not None:
        message = f"These steps wait for each other, so that none could ever start: {' → '.join(path)}."
        raise InvalidWorkflow(message)


def cycle(edges: Iterable[Edge]) -> list[str] | None:
    """The steps of a cycle in order, the first one repeated at the end; None: there is no cycle."""
    behind: dict[str, list[str]] = {}
    before: dict[str, int] = {}
    for edge in edges:
        behind.setdefault(edge.upstream, []).append(edge.downstream)
        before[edge.downstream] = before.get(edge.downstream, 0) + 1
        before.setdefault(edge.upstream, 0)
    free = deque(name for name, n in before.items() if n == 0)
    while free:
        for name in behind.get(free.popleft(), ()):
            before[name] -= 1
            if before[name] == 0:
                free.append(name)
    # Each step that is left is on a cycle or behind one: going back from any of them leads into it.
    left = {name for name, n in before.items() if n > 0}
    if not left:
        return None
    ahead = {down: up for up, downs in behind.items() if up in left for down in downs if down in left}
    name, path = min(left), list[str]()
    while name not in path:
        path.append(name)
        name = ahead[name]
    found = path[path.index(name) :][::-1]
    first = found.index(min(found))
    return [*found[first:], *found[:first], found[first]]


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    shown = ", ".join(listed[:10])
    return f"{shown} and {len(listed) - 10} more" if len(listed) > 10 else shown  # noqa: PLR2004 - as many as are named


# --- views -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as it stands. undoes: the step that it undoes; signal, until: what it waits for, and how long."""

    name: str
    job_id: int
    kind: str
    state: State
    attempt: int
    max_attempts: int
    created_at: datetime
    run_after: datetime
    claimed_at: datetime | None = None
    finished_at: datetime | None = None
    errors: Mapping[str, object] | None = None
    any_of: bool = False
    undo: str | None = None
    """The kind that undoes it."""
    undoes: str | None = None
    signal: str | None = None
    until: datetime | None = None

    @property
    def public_id(self) -> str:
        """The job's id to show to people."""
        return ids.encode(self.job_id)


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """A workflow as it stood when it was read. steps, edges: empty in a list of workflows.

    open, failed, cancelled, with_errors: numbers of steps; verdict: its final state once its steps are undone;
    undo_error: why they could not be undone.
    """

    id: int
    name: str
    state: WorkflowState
    total: int
    open: int
    failed: int
    cancelled: int
    with_errors: int
    created_at: datetime
    finished_at: datetime | None = None
    verdict: str | None = None
    undo_error: str | None = None
    cancel_requested: bool = False
    tenant: str | None = None
    submitted_by: str | None = None
    unique_key: str | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    steps: Sequence[StepView] = ()
    edges: Sequence[Edge] = ()

    @property
    def public_id(self) -> str:
        """The id to show to people."""
        return ids.encode_workflow(self.id)

    @property
    def is_final(self) -> bool:
        """Whether it has ended; only a person's retry leads on."""
        return self.state.is_final

    def step(self, name: str) -> StepView | None:
        """The step of that name; None: there is none."""
        return next((step for step in self.steps if step.name == name), None)

    @property
    def sinks(self) -> list[StepView]:
        """The steps that no step waits for, without those that undo others."""
        followed = {edge.upstream for edge in self.edges}
        return [step for step in self.steps if step.name not in followed and step.undoes is None]


@dataclass(frozen=True, slots=True)
class WorkflowPage:
    """Workflows, newest first, and the cursor for after=; None: there are no more."""

    items: Sequence[WorkflowView]
    next: str | None = None
