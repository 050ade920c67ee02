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
    from torture.soak.series import Verdict

_PLACE: Final = re.compile(r"(<!-- torture:soak -->\n).*?(<!-- /torture:soak -->)", re.DOTALL)
_HEAD: Final = (
    "| measure | series | nearest to its bound | first third | last third | growth | allowed | per hour | verdict |\n"
    "|---|---:|---|---:|---:|---:|---:|---:|---|\n"
)
_WIDTH, _HEIGHT, _ROW = 360, 60, 90


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
        one, d, unit = worst(of), measure.digits, f" {measure.unit}".rstrip()
        # A backend's number says nothing to who reads the table later.
        thing = one.of.rstrip("0123456789 ") if name == "memory of a backend" else one.of
        lines.append(
            f"| {name} | {sum(verdict.is_judged for verdict in of)} | {thing} | {one.first:,.{d}f}{unit}"
            f" | {one.last:,.{d}f}{unit} | {one.growth:+,.{d}f} | {one.allowed:,.{d}f} | {one.per_hour:+,.{d}f} | {one.found} |\n"
        )
    return _HEAD + "".join(lines)


def summary(result: Result) -> str:
    """In a sentence or two."""
    plan = result.plan
    return (
        f"{plan.seconds / 60:g} minutes at {result.jobs / plan.seconds:.0f} jobs a second: {result.jobs:,} jobs in {result.runs:,} runs,"
        f" of which retention ({plan.keep:.0f} s) had removed {result.removed:,} by the end;"
        f" {result.refused} calls refused, {len(result.violations)} promises broken."
        f" The first {plan.warm / 60:.1f} minutes are not judged."
    )


def problems(result: Result) -> str:
    """What speaks against it."""
    said = [*result.violations[:30], *(f"{name}: nothing could be judged" for name in result.unjudged)]
    said += [
        f"{verdict.measure} of {verdict.of} grows: {verdict.first:.6g} to {verdict.last:.6g}, allowed {verdict.allowed:.3g}"
        for verdict in result.verdicts
        if not verdict.ok
    ]
    return "".join(f"  {problem}\n" for problem in said)


def chart(result: Result) -> str:
    """SVG: the windows of each measure, of the series nearest to its bound."""
    names = [name for name in MEASURES if any(v.measure == name and v.is_judged for v in result.verdicts)]
    columns = 3
    rows = -(-len(names) // columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * (_WIDTH + 20)}" height="{rows * _ROW + 10}"'
        ' font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
    ]
    for number, name in enumerate(names):
        one = worst([verdict for verdict in result.verdicts if verdict.measure == name])
        x, y = 10 + number % columns * (_WIDTH + 20), 10 + number // columns * _ROW
        unit = MEASURES[name].unit
        parts.append(
            f'<text x="{x}" y="{y + 10}">{name}, {one.of}: {one.first:,.6g} → {one.last:,.6g} {unit} ({one.found})</text>\n'
            f'<polyline fill="none" stroke="{"#2563eb" if one.ok else "#dc2626"}" points="{_line(one, x, y + 16)}"/>\n'
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
