"""Output of `rowlock jobs watch`: progress bars on a terminal, one line per change in a pipe, or JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import typer
from typing_extensions import override

from rowlock.cli.exit_codes import Exit
from rowlock.cli.screen import records
from rowlock.cli.screen.output import STYLES, AppOutput, aligned, clean, compact
from rowlock.cli.screen.progress import counter, detail, moved, pace, phase_rows
from rowlock.desk.follow.watch import Watch
from rowlock.model.state import SUCCESS, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from rowlock.desk.follow.watch import WatchedJob
    from rowlock.model.progress import ItemCounts

_ORDER: Final = (State.RUNNING, State.QUEUED, State.BLOCKED, State.PENDING)
_WIDE: Final = 110
_NARROW: Final = 64
_FRAME: Final = 3
"""Lines of the terminal that are not used for jobs."""


class Display(Protocol):
    """Shows the changes between two polls."""

    away: bool = False
    """The database did not answer the last poll."""

    def update(
        self, watched_jobs: Sequence[WatchedJob], changed: Sequence[tuple[WatchedJob | None, WatchedJob]]
    ) -> None:
        """changed: each job as of the previous poll (None: it is new) and as it is now."""


async def follow(context: AppOutput, job_ids: list[str]) -> None:
    """Show the jobs until all are final, or until Ctrl-C, which does not affect them."""
    _end_on_sigterm()
    watch = Watch(context.app.database(), job_ids, listen=context.app.settings.listen)
    last: dict[int, WatchedJob] = {}
    away = False
    with _display(as_json=context.screen.as_json, everything=not job_ids) as view:
        async for watched_jobs in watch.looks():
            if watch.away and not away:
                context.screen.note("the database does not answer; trying again for a minute.")
            view.away = away = watch.away
            changed = [(last.get(one.id), one) for one in watched_jobs if _has_changed(last.get(one.id), one)]
            view.update(watched_jobs, changed)
            gone = last.keys() - {one.id for one in watched_jobs} if job_ids else set()
            for job_id in gone:
                context.screen.note(f"Job {last[job_id].public_id} was removed while it was watched.")
            last = {one.id: one for one in watched_jobs}
    _close(context, watch.asked, list(last.values()))


def _close(context: AppOutput, asked: int, final: Sequence[WatchedJob]) -> None:
    """Print how many jobs succeeded; exit code 1 unless all did."""
    good = sum(one.state in SUCCESS for one in final)
    if asked > 1 and not context.screen.as_json:
        context.screen.line(f"{good} of {asked} jobs succeeded.")
    if good < asked:
        raise typer.Exit(Exit.FAILED)


def _end_on_sigterm() -> None:
    """Cancel the task on SIGTERM, as asyncio.run() does on Ctrl-C, so that the terminal gets its cursor back."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _has_changed(before: WatchedJob | None, now: WatchedJob) -> bool:
    return before is None or (before.seq, before.state, before.progress) != (now.seq, now.state, now.progress)


class JsonDisplay(Display):
    """One object per change."""

    @override
    def update(
        self, watched_jobs: Sequence[WatchedJob], changed: Sequence[tuple[WatchedJob | None, WatchedJob]]
    ) -> None:
        """Print the changes."""
        for before, now in changed:
            sys.stdout.write(compact(record(before, now)) + "\n")
        sys.stdout.flush()


class LineDisplay(Display):
    """One line per change, without control characters."""

    @override
    def update(
        self, watched_jobs: Sequence[WatchedJob], changed: Sequence[tuple[WatchedJob | None, WatchedJob]]
    ) -> None:
        """Print the changes."""
        for before, now in changed:
            at = f"{now.seen_at.astimezone():%H:%M:%S}"
            sys.stdout.write(clean(f"{at}  {now.public_id}  {now.kind}  {moved(before, now)}") + "\n")
        sys.stdout.flush()


class BarDisplay(Display):
    """A table that is redrawn in place. everything: all running jobs, with those that ended listed above."""

    def __init__(self, *, everything: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._everything = everything
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=8)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Draw until the end of the block; the last picture stays on the screen."""
        with self._live:
            yield

    @override
    def update(
        self, watched_jobs: Sequence[WatchedJob], changed: Sequence[tuple[WatchedJob | None, WatchedJob]]
    ) -> None:
        """Draw the jobs."""
        from rich.text import Text

        if self._everything:
            for before, now in changed:
                if now.state is not State.RUNNING and before is not None:
                    layout = _Layout.of([now], self._console.width)
                    text = Text(clean(moved(before, now)), STYLES[now.state.value])
                    self._console.print(_row(now, text, layout, bar=False))
            watched_jobs = [one for one in watched_jobs if one.state is State.RUNNING]
        self._live.update(self._picture(watched_jobs))

    def _picture(self, watched_jobs: Sequence[WatchedJob]) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        if not watched_jobs:
            return Text("Nothing runs; Ctrl-C ends the watch.", "dim")
        room = max(1, self._console.height - _FRAME - self.away)
        # Rows keep their places; only if they do not all fit, running jobs come first.
        crowded = len(watched_jobs) > room
        ranked = sorted(watched_jobs, key=lambda one: (_rank(one.state) if crowded else 0, one.id))
        layout = _Layout.of(ranked[:room], self._console.width)
        below = {one.id: _below(one) for one in ranked}
        if len(ranked) + sum(map(len, below.values())) > room:
            # Without room for all lines, phases and items are left out.
            below = {}
        rows = [line for one in ranked[:room] for line in (_row(one, _words(one), layout), *below.get(one.id, ()))]
        if len(ranked) > room:
            rows.append(Text(f"… and {len(ranked) - room} more", "dim"))
        if self.away:
            # The note above the table has scrolled off a full screen.
            rows.append(Text("the database does not answer; trying again", "yellow"))
        return Group(*rows)


@contextlib.contextmanager
def _display(*, as_json: bool, everything: bool) -> Iterator[Display]:
    """The display that fits standard output."""
    from rich.console import Console

    if as_json:
        yield JsonDisplay()
    elif sys.stdout.isatty() and not Console().is_dumb_terminal:
        bars = BarDisplay(everything=everything)
        with bars.shown():
            yield bars
    else:
        yield LineDisplay()


def record(before: WatchedJob | None, now: WatchedJob) -> dict[str, Any]:
    """A change as JSON. previous: the state as of the previous poll, null at first."""
    progress = None if now.progress is None else records.progress(now.progress)
    return {
        "at": now.seen_at,
        "id": now.public_id,
        "kind": now.kind,
        "state": now.state,
        "previous": None if before is None else before.state,
        "attempt": now.attempt,
        "max_attempts": now.max_attempts,
        "lane": now.lane,
        "worker": now.worker,
        "cancel_requested": now.cancel_requested,
        "run_after": now.run_after,
        "claimed_at": now.claimed_at,
        "finished_at": now.finished_at,
        "progress": progress if progress is None else {**progress, "rate": now.rate, "eta": now.eta},
        "errors": now.error or None,
    }


def _rank(state: State) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Widths in characters; bar 0: none."""

    kind: int
    bar: int

    @classmethod
    def of(cls, watched_jobs: Sequence[WatchedJob], width: int) -> _Layout:
        longest = max((len(clean(one.kind)) for one in watched_jobs), default=0)
        bar = 0 if width < _NARROW else 10 if width < _WIDE else 24
        return cls(min(longest, 16 if width < _WIDE else 32), bar)


def _row(one: WatchedJob, text: RenderableType, layout: _Layout, *, bar: bool = True) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, width=len(one.public_id))
    table.add_column(no_wrap=True, overflow="ellipsis", width=layout.kind)
    cells: list[RenderableType] = [Text(one.public_id), Text(clean(one.kind))]
    if layout.bar and bar:
        table.add_column(width=layout.bar)
        cells.append(_bar(one, layout.bar))
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_row(*cells, text)
    return table


def _words(one: WatchedJob) -> RenderableType:
    from rich.text import Text

    # A moving bar shows that the job runs.
    words = Text() if counter(one) and one.state is State.RUNNING else Text(f"{one.state} ", STYLES[one.state.value])
    words.append(clean(detail(one)))
    words.append(f"  {pace(one)}", "dim")
    return words


def _below(one: WatchedJob) -> list[RenderableType]:
    """A line for each phase and for the items; none for a job with a single counter."""
    from rich.text import Text

    if one.progress is None:
        return []
    phases, items = one.progress.phases, one.progress.items
    lines: list[RenderableType] = []
    if len(phases) > 1:
        for phase, text in zip(phases, aligned(phase_rows(phases)), strict=True):
            sign, style = ("✓", "green") if phase.ended_at is not None else ("▸", STYLES[one.state.value])
            lines.append(Text.assemble("   ", (f"{sign} ", style), (clean(text), "dim" if sign == "✓" else "")))
    if items is not None:
        lines.append(_items_line(items))
    return lines


def _items_line(items: ItemCounts) -> RenderableType:
    from rich.text import Text

    total = "" if items.total is None else f" of {items.total}"
    line = Text.assemble("   items  ", (f"{items.completed}{total} completed", "green"))
    for count, word, style in (
        (items.in_progress, "in progress", "cyan"),
        (items.skipped, "skipped", "bright_black"),
        (items.failed, "failed", "red"),
    ):
        if count:
            line.append(", ").append(f"{count} {word}", style)
    return line


def _bar(one: WatchedJob, size: int) -> RenderableType:
    from rich.progress_bar import ProgressBar

    style = STYLES[one.state.value]
    fraction = one.progress.fraction if one.progress is not None else None
    if one.is_final:
        fraction = 1.0 if one.state is State.COMPLETED else fraction or 0.0
    elif one.state is not State.RUNNING:
        fraction = 0.0
    # A bar without a total pulses.
    total = None if fraction is None else 1.0
    return ProgressBar(total=total, completed=fraction or 0.0, width=size, complete_style=style, finished_style=style)
