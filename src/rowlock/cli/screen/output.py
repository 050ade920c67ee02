"""Output of commands: rich tables on a terminal, aligned text in a pipe, JSON for programs."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from rowlock.model import json_output
from rowlock.model.problem import code_of, members_of
from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.app import Rowlock
    from rowlock.model.problem_codes import ProblemCode

STYLES: Final = {
    "pending": "magenta",
    "blocked": "yellow",
    "queued": "blue",
    "running": "cyan",
    "completed": "green",
    "completed_with_errors": "yellow",
    "failed": "red",
    "cancelled": "bright_black",
    "expired": "bright_black",
}
_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))
_GAP: Final = "  "
_NARROW: Final = 20
"""Terminals of fewer columns get lines that are not broken between words."""
_CLOCK: Final = re.compile(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \(([^)]*)\)")
"""An instant as moment() writes it; the distance in the parentheses alone is shorter."""


class AppOutput(Protocol):
    """What a display needs from its command: the application and the output."""

    screen: Screen

    @property
    def app(self) -> Rowlock:
        """The application."""


class Screen:
    """Writes what a command has to say; with --json nothing but JSON, on standard output and standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        records: object,
        empty: str,
        spare: Sequence[str] = (),
    ) -> None:
        """Show rows, or `records` as JSON, or the sentence `empty` when there are none.

        spare: columns that a terminal too narrow for all of them leaves out, the first one first.
        """
        if self.as_json:
            self.json(records)
        elif not rows:
            self.line(empty)
        elif sys.stdout.isatty():
            _rich_table(columns, [[clean(cell) for cell in row] for row in rows], spare)
        else:
            for text in aligned([[column.upper() for column in columns], *rows]):
                self.line(text)

    def fields(self, pairs: Mapping[str, str], record: object) -> None:
        """Show names and values of one thing, or `record` as JSON; empty values are left out."""
        if self.as_json:
            self.json(record)
            return
        width = max(map(len, pairs), default=0)
        for name, value in pairs.items():
            if value:
                indented = value.replace("\n", "\n" + " " * (width + len(_GAP)))
                self.line(f"{name:<{width}}{_GAP}{indented}")

    def answer(self, text: str, record: object) -> None:
        """One sentence, or `record` as JSON."""
        self.json(record) if self.as_json else self.line(text)

    def note(self, text: str) -> None:
        """A remark on standard error: a line, or an object with the member `note`."""
        self._to_stderr({"note": text} if self.as_json else text)

    def problem(self, error: BaseException, **members: object) -> None:
        """An error on standard error: its message, or an object with code, title, detail and what else is known."""
        if not self.as_json:
            self._to_stderr(str(error))
            return
        self.problem_of(code_of(error), str(error), **members_of(error), **members)

    def problem_of(self, code: ProblemCode, detail: str, **members: object) -> None:
        """A problem that is no exception of Rowlock's."""
        record = {"code": code.name, "title": code.title, "detail": detail, **members}
        self._to_stderr(record if self.as_json else detail)

    def _to_stderr(self, value: str | Mapping[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        text = f"rowlock: {clean(value)}" if isinstance(value, str) else compact(value)
        sys.stderr.write(text + "\n")

    def line(self, text: str) -> None:
        """One line, exactly as it is (control characters made visible)."""
        sys.stdout.write(clean(text) + "\n")

    def prose(self, text: str) -> None:
        """Sentences: on a terminal broken between words, two spaces in; elsewhere one line."""
        import shutil

        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        inner = f"{text[: len(text) - len(text.lstrip())]}  "
        words = textwrap.TextWrapper(width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)
        for line in words.wrap(text) if width > _NARROW else [text]:
            self.line(line)

    def json(self, value: object) -> None:
        """A value as JSON: instants, durations and counts as rowlock.model.json_output writes them."""
        text = json.dumps(value, default=json_output.plain, ensure_ascii=False, indent=2)
        sys.stdout.write(json_output.escaped(text) + "\n")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width; the last one is left ragged."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def clean(text: str) -> str:
    """Text with control characters made visible: arguments, names and errors must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    columns, rows = fitted(columns, rows, spare, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("id", "job", "state"))
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console.print(table)


def fitted(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Columns and rows that fit the width: instants become distances, then spare columns are left out."""
    if _width(columns, rows) <= width:
        return columns, rows
    rows = [[_CLOCK.sub(r"\1", cell) for cell in row] for row in rows]
    for name in spare:
        if _width(columns, rows) <= width:
            break
        at = columns.index(name)
        columns = [*columns[:at], *columns[at + 1 :]]
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
    return columns, rows


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = (max(len(row[n]) for row in [columns, *rows]) for n in range(len(columns)))
    return sum(widths) + len(_GAP) * (len(columns) - 1)


def moment(at: datetime | None, now: datetime | None = None) -> str:
    """Local time and distance: `14:03:22 (3 min ago)`; with its date when it is not today; None: nothing."""
    if at is None:
        return ""
    now = now or datetime.now(UTC)
    local = at.astimezone()
    form = "%H:%M:%S" if local.date() == now.astimezone().date() else "%Y-%m-%d %H:%M:%S"
    return f"{local:{form}} ({distance(at - now)})"


def distance(ahead: timedelta) -> str:
    """The distance to an instant in its largest unit, such as `in 3 min` or `2 days ago`."""
    seconds = abs(ahead.total_seconds())
    if seconds < 1:
        return "now"
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= size)
    count = int(seconds // size)
    text = f"{count} {unit}" + "s" * (unit == "day" and count > 1)
    return f"in {text}" if ahead > timedelta(0) else f"{text} ago"


def span(value: timedelta | None) -> str:
    """A duration to the millisecond; None: nothing."""
    if value is None:
        return ""
    return humanise(timedelta(milliseconds=round(value / timedelta(milliseconds=1))))


def compact(value: object) -> str:
    """A JSON value in one line."""
    return json_output.escaped(json.dumps(value, default=json_output.plain, ensure_ascii=False))
