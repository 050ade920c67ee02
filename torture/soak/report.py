"""What a soak showed: a table for people, a chart, and the section between the marks of docs/operate/reliability.md."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from torture.report import PAGE
from torture.soak.measures import MEASURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torture.soak.run import Result
    from torture.soak.series import Measure, Verdict

_PLACE: Final = re.compile(r"(<!-- torture:soak -->\n).*?(<!-- /torture:soak -->)", re.DOTALL)
_HEAD: Final = (
    "| measure | series | nearest to its bound | first third | last third | growth | allowed | per hour | verdict |\n"
    "|---|---:|---|---:|---:|---:|---:|---:|---|\n"
)
_WIDTH: Final = 360
_HEIGHT: Final = 60
_ROW: Final = 90
_BACK: Final = '<rect width="100%" height="100%" fill="white"/>'


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The one that used most of its allowance."""
    return max(verdicts, key=lambda verdict: (not verdict.ok, verdict.is_judged, verdict.used))


def table(result: Result) -> str:
    """Markdown: one line per measure, for the series that came nearest to its bound."""
    lines = []
    for name, measure in MEASURES.items():
        of = [verdict for verdict in result.verdicts if verdict.measure == name]
        if not any(verdict.is_judged for verdict in of):
            lines.append(f"| {name} | {len(of)} | - | - | - | - | - | - | not judged |\n")
            continue
        lines.append(_row(measure, worst(of), sum(verdict.is_judged for verdict in of)))
    return _HEAD + "".join(lines)


def _row(measure: Measure, one: Verdict, judged: int) -> str:
    d, unit = measure.digits, f" {measure.unit}".rstrip()
    # A backend's number says nothing to who reads the table later.
    thing = one.of.rstrip("0123456789 ") if measure.name == "memory of a backend" else one.of
    return (
        f"| {measure.name} | {judged} | {thing} | {one.first:,.{d}f}{unit} | {one.last:,.{d}f}{unit}"
        f" | {one.growth:+,.{d}f} | {one.allowed:,.{d}f} | {one.per_hour:+,.{d}f} | {one.found} |\n"
    )


def summary(result: Result) -> str:
    """In a sentence or two."""
    plan = result.plan
    return (
        f"{plan.seconds / 60:g} minutes at {result.jobs / plan.seconds:.0f} jobs a second: {result.jobs:,} jobs in"
        f" {result.runs:,} runs,"
        f" of which retention ({plan.keep:.0f} s) had removed {result.removed:,} by the end;"
        f" {result.refused} calls refused, {len(result.violations)} promises broken."
        f" The first {plan.warm / 60:.1f} minutes are not judged."
    )


def problems(result: Result) -> str:
    """What speaks against it."""
    said = [*result.violations[:30], *(f"{name}: nothing could be judged" for name in result.unjudged)]
    said += [
        f"{one.measure} of {one.of} grows: {one.first:.6g} to {one.last:.6g}, allowed {one.allowed:.3g}"
        for one in result.verdicts
        if not one.ok
    ]
    return "".join(f"  {problem}\n" for problem in said)


def chart(result: Result) -> str:
    """SVG: the windows of each measure, of the series nearest to its bound."""
    names = [name for name in MEASURES if any(v.measure == name and v.is_judged for v in result.verdicts)]
    columns = 3
    rows = -(-len(names) // columns)
    size = f'width="{columns * (_WIDTH + 20)}" height="{rows * _ROW + 10}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">\n{_BACK}\n']
    for number, name in enumerate(names):
        one = worst([verdict for verdict in result.verdicts if verdict.measure == name])
        x, y = 10 + number % columns * (_WIDTH + 20), 10 + number // columns * _ROW
        words = f"{name}, {one.of}: {one.first:,.6g} → {one.last:,.6g} {MEASURES[name].unit} ({one.found})"
        colour = "#2563eb" if one.ok else "#dc2626"
        parts.append(
            f'<text x="{x}" y="{y + 10}">{words}</text>\n'
            f'<polyline fill="none" stroke="{colour}" points="{_line(one, x, y + 16)}"/>\n'
        )
    return "".join([*parts, "</svg>\n"])


def _line(verdict: Verdict, x: float, y: float) -> str:
    """From zero to the highest value: a flat line looks flat."""
    top = max(*(value for _, value in verdict.windows), verdict.first + verdict.allowed) or 1.0
    since, until = verdict.windows[0][0], verdict.windows[-1][0]
    return " ".join(
        f"{x + _WIDTH * (at - since) / (until - since):.1f},{y + _HEIGHT * (1 - value / top):.1f}"
        for at, value in verdict.windows
    )


def publish(result: Result, about: str) -> None:
    """Rewrite the page's section."""
    words = (
        f"Measured on {datetime.now(UTC).date():%d %B %Y} with PostgreSQL {about}, Python {platform.python_version()}"
        f" and {os.cpu_count()} cores. {summary(result)}"
    )
    text = PAGE.read_text()
    if not _PLACE.search(text):
        raise SystemExit(f"{PAGE} has no place for the table: <!-- torture:soak --> is missing.")
    PAGE.write_text(_PLACE.sub(lambda place: f"{place[1]}\n{words}\n\n{table(result)}\n{place[2]}", text))
