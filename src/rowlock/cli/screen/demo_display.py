"""The display of `rowlock demo`: progress bars on a terminal, one line per change elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from rowlock.cli.screen.job_text import progress_text
from rowlock.cli.screen.output import STYLES
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from rowlock.model.job import Job

_MANY: Final = "demo.greet"
"""Shown as one row: a dozen of them would fill the screen."""
_BAR: Final = 24


class DemoDisplay(Protocol):
    """Shows the jobs as they are now."""

    def update(self, jobs: Sequence[Job], shows: Sequence[str], seconds: float) -> None:
        """shows: what each job is there for; seconds since the demo began."""


class NoDisplay:
    """For --json."""

    def update(self, jobs: Sequence[Job], shows: Sequence[str], seconds: float) -> None:
        """Print nothing."""


class LineDisplay:
    """One line per change of state or progress."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[str, str]] = {}

    def update(self, jobs: Sequence[Job], shows: Sequence[str], seconds: float) -> None:
        """Print the changes."""
        for job, what in zip(jobs, shows, strict=True):
            now = job.state.value, progress_text(job.progress) if job.state is State.RUNNING else ""
            before = self._last.get(job.id)
            if now != before:
                self._last[job.id] = now
                sys.stdout.write(f"{seconds:5.1f} s  {job.kind:<24}  {job.public_id}  {_change(before, now, what)}\n")
        sys.stdout.flush()


class BarDisplay:
    """A table that is drawn again in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(), refresh_per_second=12)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Draw until the end of the block; the last picture stays on the screen."""
        with self._live:
            yield

    def update(self, jobs: Sequence[Job], shows: Sequence[str], seconds: float) -> None:
        """Draw the jobs."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for job, what in zip(jobs, shows, strict=True):
            if job.kind != _MANY:
                state = Text(job.state.value, style=STYLES[job.state.value])
                table.add_row(Text(job.kind), _bar(_fraction(job), job.state), state, Text(_detail(job) or what, "dim"))
        many = [job for job in jobs if job.kind == _MANY]
        states = Counter(job.state for job in many)
        done = states[State.COMPLETED]
        worst = State.COMPLETED if done == len(many) else State.RUNNING
        text = ", ".join(f"{count} {state.value}" for state, count in sorted(states.items()))
        table.add_row(
            Text(f"{_MANY} x {len(many)}"),
            _bar(done / len(many), worst),
            Text(f"{done}/{len(many)}"),
            Text(text, "dim"),
        )
        final = sum(job.is_final for job in jobs)
        head = Text(f"{final} of {len(jobs)} jobs have ended, {seconds:.1f} s", "bold")
        self._live.update(Group(head, table))


@contextlib.contextmanager
def demo_display(*, as_json: bool) -> Iterator[DemoDisplay]:
    """The display that fits standard output."""
    if as_json:
        yield NoDisplay()
    elif sys.stdout.isatty():
        bars = BarDisplay()
        with bars.shown():
            yield bars
    else:
        yield LineDisplay()


def _change(before: tuple[str, str] | None, now: tuple[str, str], what: str) -> str:
    state, progress = now
    if before is None:
        return f"{state}  ({what})"
    moved = f"{before[0]} → {state}" if before[0] != state else state
    return f"{moved}  {progress}" if progress else moved


def _detail(job: Job) -> str:
    if job.state is State.RUNNING:
        return progress_text(job.progress)
    if job.state is State.QUEUED and job.attempt:
        return f"attempt {job.attempt} failed; again soon"
    return ""


def _fraction(job: Job) -> float | None:
    if job.is_final:
        return 1.0 if job.progress is None or job.state is State.COMPLETED else job.progress.fraction or 0.0
    if job.state is not State.RUNNING:
        return 0.0
    return job.progress.fraction if job.progress is not None else None


def _bar(fraction: float | None, state: State) -> RenderableType:
    from rich.progress_bar import ProgressBar

    style = STYLES[state.value]
    # A bar without a total pulses.
    total = None if fraction is None else 1.0
    return ProgressBar(total=total, completed=fraction or 0.0, width=_BAR, complete_style=style, finished_style=style)
