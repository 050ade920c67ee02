"""The steps of a workflow as lines, each indented below the steps it depends on; many alike are one line."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.screen.job_text import error_text
from rowlock.cli.screen.output import moment, span
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rowlock.model.workflow import Edge, StepView, WorkflowView

COLUMNS: Final = ("step", "state", "kind", "job", "time", "notes")
SPARE: Final = ("kind", "job", "time")
_ALIKE: Final = 12
"""Up to so many steps of one kind with the same neighbours have a line each; more share one line."""
_SHOWN: Final = 400
"""Lines of one workflow."""
_NAMED: Final = 3


def rows(view: WorkflowView) -> list[list[str]]:
    """Rows under COLUMNS."""
    before: defaultdict[str, list[Edge]] = defaultdict(list)
    behind: defaultdict[str, list[str]] = defaultdict(list)
    there = {step.name for step in view.steps}
    for edge in view.edges:
        if edge.upstream not in there:
            continue  # the job of the step before it was removed
        before[edge.downstream].append(edge)
        behind[edge.upstream].append(edge.downstream)
    lines = []
    for depth, steps in _walk(_alike(view.steps, before, behind), before):
        indent = "  " * depth
        if len(steps) > _ALIKE:
            lines.append(_together(indent, steps))
        else:
            lines += [_line(indent, step, before[step.name]) for step in steps]
    if len(lines) > _SHOWN:
        rest = ["…", f"{len(lines) - _SHOWN:,} more", "", "", "", "--json has them all"]
        lines = [*lines[:_SHOWN], rest]
    return lines


def _alike(
    steps: Sequence[StepView], before: Mapping[str, Sequence[Edge]], behind: Mapping[str, Sequence[str]]
) -> list[list[StepView]]:
    """Steps of one kind with the same neighbours, in the order of the first of each."""
    found: defaultdict[tuple[Any, ...], list[StepView]] = defaultdict(list)
    for step in steps:
        above, below = before.get(step.name, ()), behind.get(step.name, ())
        found[step.kind, step.undoes is None, tuple(edge.upstream for edge in above), tuple(below)].append(step)
    return list(found.values())


def _walk(
    groups: Sequence[list[StepView]], before: Mapping[str, Sequence[Edge]]
) -> Iterator[tuple[int, list[StepView]]]:
    """Steps in order, each below the last step it depends on, with its depth."""
    followers: defaultdict[str, list[int]] = defaultdict(list)
    missing, depth = list[int](), dict[str, int]()
    for n, group in enumerate(groups):
        above = {edge.upstream for edge in before.get(group[0].name, ())}
        missing.append(len(above))
        for name in above:
            followers[name].append(n)
    ready = [n for n, count in enumerate(missing) if count == 0][::-1]
    while ready:
        group = groups[ready.pop()]
        deep = 1 + max((depth[edge.upstream] for edge in before.get(group[0].name, ())), default=-1)
        yield deep, group
        freed = []
        for step in group:
            depth[step.name] = deep
            for n in followers[step.name]:
                missing[n] -= 1
                freed += [n] if missing[n] == 0 else []
        ready += freed[::-1]


def _line(indent: str, step: StepView, before: Sequence[Edge]) -> list[str]:
    return [
        f"{indent}{step.name}",
        str(step.state),
        step.kind,
        step.public_id,
        _time(step),
        "; ".join(filter(None, _notes(step, before))),
    ]


def _notes(step: StepView, before: Sequence[Edge]) -> Iterator[str]:
    if len(before) > 1:
        named = ", ".join(edge.upstream for edge in before[:_NAMED])
        more = f" and {len(before) - _NAMED:,} more" if len(before) > _NAMED else ""
        yield f"after {'any of ' if step.any_of else ''}{named}{more}"
    needs = {edge.needs for edge in before} - {"success"}
    if needs:
        yield f"on {', '.join(sorted(needs))}"
    if step.undoes is not None:
        yield f"undoes {step.undoes}"
    if step.undo is not None:
        yield f"undo: {step.undo}"
    if step.signal is not None:
        yield f"waits for the signal {step.signal}" + (f" until {moment(step.until)}" if step.until else "")
    elif step.errors and step.errors.get("reason") in ("dependency", "not needed"):
        yield f"{step.errors['step']} is {step.errors['state']}"
    elif step.errors and step.state is not State.QUEUED:
        yield error_text(step.errors)


def _time(step: StepView) -> str:
    if step.finished_at is not None:
        return span(step.finished_at - step.claimed_at) if step.claimed_at is not None else ""
    if step.state is State.RUNNING:
        return f"since {moment(step.claimed_at)}"
    return f"due {moment(step.run_after)}" if step.state is State.QUEUED else ""


def _together(indent: str, steps: Sequence[StepView]) -> list[str]:
    states = Counter(str(step.state) for step in steps)
    counts = ", ".join(f"{n:,} {state}" for state, n in states.most_common())
    failed = next((step for step in steps if step.state is State.FAILED), None)
    why = "" if failed is None else f"{failed.name}: {error_text(failed.errors)}"
    return [f"{indent}{steps[0].name} … {steps[-1].name}", counts, steps[0].kind, f"{len(steps):,} jobs", "", why]
