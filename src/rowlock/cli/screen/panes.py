"""The screen of `rowlock top`: panes of lanes, workers, jobs and kinds, as rows and as lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from rowlock.cli.screen.job_text import progress_text
from rowlock.cli.screen.output import clean, distance, fitted
from rowlock.cli.screen.progress_text import left_text, rate_text
from rowlock.model import size
from rowlock.model.count import total
from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from rich.text import Text

    from rowlock.model.job import Job
    from rowlock.model.workload import Failures, LaneLoad, Panel, Running, WorkerView

_GAP: Final = 2
_BAR: Final = 10
_FRAME: Final = 3
"""Lines outside of the panes: two above, one below."""
_SMALL: Final = 12
"""Lines below which only the pane in focus is shown."""
_KEYS: Final = "? help  q quit  tab pane  j/k select  / filter  p pause  c cancel  s stop  a approve  d drain  r resume"
HELP: Final = """\
tab, shift-tab        the next pane, the one before
j, k, arrows          select a row; page up, page down, home, end
/                     show only rows that contain a text; escape: all again
c                     cancel a job: if it waits at once, if it runs at its next await
s                     stop a job now; what its handler still returns is refused
a                     approve a job that awaits approval
d                     drain a lane or worker: it starts no more, what runs goes on
r                     resume a lane
p                     pause the display; p again goes on
ctrl-l                draw everything anew
q                     quit; jobs, lanes and workers are left alone
"""


class Pane(StrEnum):
    """The four parts of the screen, from the top."""

    LANES = "lanes"
    WORKERS = "workers"
    JOBS = "jobs"
    KINDS = "kinds"


_COLUMNS: Final[Mapping[Pane, Sequence[str]]] = {
    Pane.LANES: ("lanes", "state", "running", "slots", "use", "workers", "due", "scheduled", "oldest", "kinds"),
    Pane.WORKERS: ("workers", "state", "running", "memory", "lanes", "host", "pid", "version", "started", "seen"),
    Pane.JOBS: ("jobs", "kind", "lane", "worker", "attempt", "for", "done", "progress"),
    Pane.KINDS: ("kinds", "lane", "due", "scheduled", "oldest", "ended", "failed", "rate"),
}
_SPARE: Final[Mapping[Pane, Sequence[str]]] = {
    Pane.LANES: ("kinds", "use", "scheduled", "workers"),
    Pane.WORKERS: ("version", "started", "pid", "host", "memory"),
    Pane.JOBS: ("attempt", "worker", "done", "lane"),
    Pane.KINDS: ("scheduled", "ended"),
}
_NUMBERS: Final = frozenset(
    (
        "running",
        "slots",
        "workers",
        "due",
        "scheduled",
        "oldest",
        "ended",
        "failed",
        "rate",
        "for",
        "attempt",
        "pid",
        "memory",
    )
)
_EMPTY: Final[Mapping[Pane, str]] = {
    Pane.LANES: "No lanes yet; a worker creates them at its start.",
    Pane.WORKERS: "No workers. Start one: rowlock worker --app module:attribute",
    Pane.JOBS: "Nothing runs, and nothing awaits approval.",
    Pane.KINDS: "Nothing waits, and nothing ended lately.",
}


@dataclass(frozen=True, slots=True)
class TopData:
    """What one refresh reads. pending: the first jobs that wait for approval."""

    panel: Panel
    pending: Sequence[Job]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a pane. key: the lane, worker, job or kind that it shows."""

    key: int | str
    cells: Sequence[str]
    style: str = ""


@dataclass(slots=True)
class ViewState:
    """The state of the view. chosen: per pane the key of the selected row and its last index."""

    pane: Pane = Pane.JOBS
    chosen: dict[Pane, tuple[int | str, int]] = field(default_factory=dict)
    wanted: str = ""
    typing: bool = False
    helping: bool = False
    paused: bool = False
    question: str | None = None
    note: str = ""
    away: str | None = None

    def selected(self, pane: Pane, rows: Sequence[Row]) -> int:
        """The index of the selected row; if that is gone, of the row in its place."""
        key, at = self.chosen.get(pane, (None, 0))
        found = next((n for n, row in enumerate(rows) if row.key == key), at)
        return max(0, min(found, len(rows) - 1))

    def move(self, rows: Sequence[Row], by: int) -> None:
        """Select another row of the pane in focus."""
        if rows:
            at = max(0, min(self.selected(self.pane, rows) + by, len(rows) - 1))
            self.chosen[self.pane] = rows[at].key, at


def rows(pane: Pane, data: TopData, wanted: str = "") -> list[Row]:
    """The rows of a pane that contain the text."""
    found = _ROWS[pane](data)
    low = wanted.lower()
    return [row for row in found if any(low in cell.lower() for cell in row.cells)] if low else found


def _lanes(data: TopData) -> list[Row]:
    return [_lane(load) for load in data.panel.overview.lanes]


def _lane(load: LaneLoad) -> Row:
    lane = load.lane
    state, style = ("open", "") if lane.enabled else ("drained", "yellow")
    if lane.enabled and load.due and not load.workers:
        state, style = "no worker", "red"
    slots = str(load.slots) + (f" (max {lane.max_total})" if lane.max_total is not None else "")
    return Row(
        lane.name,
        (
            clean(lane.name),
            state,
            str(load.running) + (f" ({load.held} stuck)" if load.held else ""),
            slots,
            _bar(load.used / load.slots if load.slots else 0.0),
            str(load.workers),
            str(load.due),
            str(load.scheduled),
            _wait(load.oldest_wait),
            clean(", ".join(lane.kinds)),
        ),
        style,
    )


def _workers(data: TopData) -> list[Row]:
    return [_worker(worker, data.panel.overview.at) for worker in data.panel.overview.workers]


def _worker(worker: WorkerView, now: datetime) -> Row:
    state, style = worker.state, ""
    if worker.silent:
        state, style = "silent", "red"
    elif worker.requested is not None or worker.state != "up":
        state, style = "draining", "yellow"
    return Row(
        worker.id,
        (
            clean(worker.name),
            state,
            str(worker.running) + (f" ({worker.stuck} stuck)" if worker.stuck else ""),
            "" if worker.memory is None else size.shown(worker.memory),
            "all" if worker.lanes is None else clean(", ".join(worker.lanes)),
            clean(worker.host),
            str(worker.pid),
            worker.version,
            distance(worker.started_at - now),
            distance(worker.seen_at - now),
        ),
        style,
    )


def _jobs(data: TopData) -> list[Row]:
    return [_running(job) for job in data.panel.running] + [_pending(job, data) for job in data.pending]


def _running(job: Running) -> Row:
    asked = "cancel requested, " * job.cancel_requested
    fraction = None if job.progress is None else job.progress.fraction
    return Row(
        job.id,
        (
            job.public_id,
            clean(job.kind),
            clean(job.lane or ""),
            clean(job.worker or "?") + " (silent)" * job.worker_silent,
            str(job.attempt),
            left_text(job.running_for),
            "" if fraction is None else _bar(fraction),
            clean(asked + progress_text(job.progress)),
        ),
        "red" if job.worker_silent else "yellow" if job.cancel_requested else "",
    )


def _pending(job: Job, data: TopData) -> Row:
    waits = left_text(data.panel.overview.at - job.created_at)
    who = f", submitted by {job.submitted_by}" if job.submitted_by else ""
    return Row(
        job.id, (job.public_id, clean(job.kind), "", "", "", waits, "", clean(f"awaits approval{who}")), "magenta"
    )


def _kinds(data: TopData) -> list[Row]:
    """Backlog and recent ends by kind."""
    ends = {item.kind: item for item in data.panel.failures}
    waiting = [
        Row(
            item.kind,
            (
                clean(item.kind),
                clean(item.lane or "(none)"),
                str(item.due),
                str(item.scheduled),
                _wait(item.oldest_wait),
                *_ends(ends.pop(item.kind, None)),
            ),
            "red" if item.lane is None and item.due else "",
        )
        for item in data.panel.backlog
    ]
    return waiting + [Row(item.kind, (clean(item.kind), "", "0", "0", "", *_ends(item))) for item in ends.values()]


def _ends(item: Failures | None) -> tuple[str, str, str]:
    return ("", "", "") if item is None else (str(item.ended), str(item.failed), f"{item.rate:.1%}")


_ROWS: Final = {Pane.LANES: _lanes, Pane.WORKERS: _workers, Pane.JOBS: _jobs, Pane.KINDS: _kinds}


def shares(needs: Sequence[int], room: int, focus: int) -> list[int]:
    """Lines for each pane: up to an equal share; the rest goes to the pane in focus first."""
    heights = [min(need, room // len(needs)) for need in needs]
    for n in (focus, *range(len(needs))):
        heights[n] += min(needs[n] - heights[n], room - sum(heights))
    return heights


def frame(data: TopData | None, view: ViewState, width: int, height: int, place: str) -> list[Text]:
    """The whole screen, one Text per line."""
    from rich.text import Text

    lines = [_head(data, view, width, place), _sums(data)]
    if view.helping:
        lines += [Text(line) for line in HELP.splitlines()]
    elif data is not None:
        lines += _body(data, view, width, height - _FRAME)
    lines = lines[: height - 1] + [Text()] * (height - 1 - len(lines))
    lines.append(_foot(view))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _body(data: TopData, view: ViewState, width: int, room: int) -> list[Text]:
    panes = list(Pane) if room >= _SMALL else [view.pane]
    found = [rows(pane, data, view.wanted) for pane in panes]
    heights = shares([1 + max(1, len(one)) for one in found], room, panes.index(view.pane))
    lines = []
    for pane, one, height in zip(panes, found, heights, strict=True):
        at = view.selected(pane, one)
        lines += pane_lines(pane, one, width, height, at if pane is view.pane else None, filtered=bool(view.wanted))
    return lines


def pane_lines(
    pane: Pane, found: Sequence[Row], width: int, height: int, selected: int | None, *, filtered: bool = False
) -> list[Text]:
    """One pane: its heading and as many rows as fit, around the selected one. selected None: not in focus."""
    from rich.text import Text

    columns, cells = fitted(_COLUMNS[pane], [row.cells for row in found], _SPARE[pane], width)
    room = max(0, height - 1)
    first = max(0, min((selected or 0) - room // 2, len(found) - room))
    shown = range(first, min(first + room, len(found)))
    head = [column.upper() for column in columns]
    if len(shown) < len(found) and shown:
        head[0] += f" {first + 1}-{first + len(shown)}/{len(found)}"
    widths = [max(len(row[n]) for row in [head, *cells]) for n in range(len(head))]
    lines = [_line(head, columns, widths, width, "bold reverse" if selected is not None else "bold")]
    for n in shown:
        style = found[n].style + (" reverse" if n == selected else "")
        lines.append(_line(cells[n], columns, widths, width, style.strip()))
    if not found and room:
        lines.append(Text("  " + ("Nothing contains that text." if filtered else _EMPTY[pane]), "dim"))
    return lines


def _line(cells: Sequence[str], columns: Sequence[str], widths: Sequence[int], width: int, style: str) -> Text:
    from rich.text import Text

    last = len(cells) - 1
    parts = [
        cell
        if n == last and not (n and columns[n] in _NUMBERS)
        else f"{cell:>{widths[n]}}"
        if n and columns[n] in _NUMBERS
        else f"{cell:<{widths[n]}}"
        for n, cell in enumerate(cells)
    ]
    text = Text((" " * _GAP).join(parts).replace("\n", " "), style)
    text.truncate(width, overflow="ellipsis", pad="reverse" in style)
    return text


def _head(data: TopData | None, view: ViewState, width: int, place: str) -> Text:
    from rich.text import Text

    at = datetime.now(UTC) if data is None else data.panel.overview.at
    state = "paused" if view.paused else ""
    if view.away is not None:
        state = f"reconnecting: {view.away}"
    right = Text(clean(f"{state}  " * bool(state) + f"{at.astimezone():%H:%M:%S}"), "red" if view.away else "yellow")
    left = Text.assemble(("rowlock top  ", "bold"), (clean(place), "dim"))
    left.truncate(max(12, width - len(right) - _GAP), overflow="ellipsis", pad=True)
    return left + Text(" " * _GAP) + right


def _sums(data: TopData | None) -> Text:
    from rich.text import Text

    if data is None:
        return Text("Looking …", "dim")
    panel, overview = data.panel, data.panel.overview
    due, later = total(item.due for item in panel.backlog), total(item.scheduled for item in panel.backlog)
    oldest = max((item.oldest_wait for item in panel.backlog if item.oldest_wait is not None), default=None)
    ended = total(overview.ended.values())
    failed = overview.ended["failed"]
    rate = f", {failed.value / ended.value:.1%} failed" if ended.value else ""
    parts = [
        f"running {overview.states['running']}/{sum(lane.slots for lane in overview.lanes)}",
        f"{rate_text(panel.throughput.per_second)}{rate} in {humanise(overview.window)}",
        f"due {due}" + (f" (oldest {_wait(oldest)})" if oldest is not None else ""),
        f"pending {overview.states['pending']}",
        f"blocked {overview.states['blocked']}",
        f"scheduled {later}",
    ]
    return Text("  ".join(parts))


def _foot(view: ViewState) -> Text:
    from rich.text import Text

    if view.question is not None:
        return Text(clean(f"{view.question} y/n"), "bold yellow")
    if view.typing:
        return Text(clean(f"/{view.wanted}") + "▏", "bold")
    wanted = f"/{view.wanted}  " if view.wanted else ""
    return Text.assemble(
        (clean(wanted), "bold"), (clean(view.note), "yellow"), ("  " * bool(view.note)), (_KEYS, "dim")
    )


def _bar(fraction: float) -> str:
    filled = round(_BAR * min(1.0, max(0.0, fraction)))
    return "█" * filled + "░" * (_BAR - filled)


def _wait(wait: timedelta | None) -> str:
    return "" if wait is None else left_text(wait)
