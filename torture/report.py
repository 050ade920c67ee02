"""The table of faults: on the terminal, and between the marks of docs/operate/reliability.md."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torture.run import Result

PAGE: Final = Path(__file__).parents[1] / "docs" / "operate" / "reliability.md"
_PLACE: Final = re.compile(r"(<!-- torture:faults -->\n).*?(<!-- /torture:faults -->)", re.DOTALL)
_HEAD: Final = (
    "| scenario | what happens | jobs | errors seen by producers | runs lost and repeated | lost | accepted twice"
    " | first job after (s) | last rescue after (s) | all final after (s) | bound (s) |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)
_LOST: Final = ("acknowledged and lost", "left behind")
_TWICE: Final = ("claimed twice", "outcomes", "accepted from a stale run", "run again")


def line(result: Result) -> str:
    """One line of progress."""
    verdict = "ok" if result.ok else f"{len(result.violations)} VIOLATIONS" if result.violations else "LATE"
    notes = ", ".join(f"{name} {value:g}" for name, value in result.notes.items())
    return (
        f"{result.scenario:<14} {verdict:<14} {result.acknowledged:>5} jobs, {result.lost} runs lost,"
        f" all final {result.recovery:.1f} s after the fault (bound {result.bound:.0f} s), {result.took:.0f} s {notes}"
    )


def table(results: Sequence[Result]) -> str:
    """Markdown."""
    return _HEAD + "".join(_row(result) for result in results)


def _row(result: Result) -> str:
    def broken(rules: tuple[str, ...]) -> int:
        return sum(violation.startswith(rules) for violation in result.violations)

    counted = "".join(f", {name} {value:g}" for name, value in result.notes.items())
    return (
        f"| {result.scenario} | {result.does}; {result.fault:.0f} s{counted} | {result.acknowledged} | {result.refused}"
        f" | {result.lost} | {broken(_LOST)} | {broken(_TWICE)}"
        f" | {_seconds(result.first)} | {_seconds(result.rescued)} | {result.recovery:.1f} | {result.bound:.0f} |\n"
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def problems(results: Sequence[Result]) -> str:
    """What was not kept, scenario by scenario."""
    said = []
    for result in results:
        if not result.ok:
            late = (
                [] if result.recovery <= result.bound else [f"final after {result.recovery} s, bound {result.bound} s"]
            )
            said += [f"\n{result.scenario}:\n", *(f"  {problem}\n" for problem in [*result.violations, *late][:30])]
    return "".join(said)


def publish(results: Sequence[Result], about: str) -> None:
    """Rewrite the page's table."""
    cores = os.cpu_count()
    day = datetime.now(UTC).date()
    words = (
        f"Measured on {day:%d %B %Y} with PostgreSQL {about}, Python {platform.python_version()} and {cores} cores,"
        " two worker processes and one producer."
    )
    text = PAGE.read_text()
    if not _PLACE.search(text):
        raise SystemExit(f"{PAGE} has no place for the table: <!-- torture:faults --> is missing.")
    PAGE.write_text(_PLACE.sub(lambda place: f"{place[1]}\n{words}\n\n{table(results)}\n{place[2]}", text))
