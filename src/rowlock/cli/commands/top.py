"""rowlock top: a live screen of lanes, workers, jobs and kinds, with keys for orders."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext, current_user
from rowlock.cli.screen import records
from rowlock.cli.screen.panes import Pane, TopData, ViewState, frame, pane_lines, rows
from rowlock.cli.screen.terminal import Terminal
from rowlock.errors import DatabaseUnreachable, InvalidOption, RowlockError
from rowlock.model import ids
from rowlock.model.database_url import shown
from rowlock.model.state import State
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rich.text import Text

    from rowlock.app import Rowlock
    from rowlock.cli.screen.panes import Row

_LEAST: Final = 0.1
_JOBS: Final = 500
_PENDING: Final = 50
_PAGE: Final = 10
_LATE: Final = 3.0
"""Seconds without an answer after which the screen says so."""
_PIPE_WIDTH: Final = 160
_ENDS: Final = 1_000_000


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    command(root, "top")(top)


async def top(
    context: CommandContext,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Refresh interval, such as 5s.")] = "1s",
    window: Annotated[
        str, typer.Option(metavar="DURATION", help="Time window of throughput and failures, such as 15m.")
    ] = "1m",
    once: Annotated[bool, typer.Option("--once", help="Print the screen once and exit.")] = False,
) -> None:
    """Show lanes, workers, running jobs and backlog, live; cancel, stop, approve, drain and resume by key.

    Press ? for the keys. Without a terminal, one picture is printed.
    """
    every = duration(interval, "--interval").total_seconds()
    if every < _LEAST:
        raise InvalidOption(f"--interval must be 100ms or more; got {interval!r}.")
    from rich.console import Console

    if once or context.screen.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()) or Console().is_dumb_terminal:
        _print(context, await read_data(context.app, window))
        return
    await Top(context.app, every, window).run()


async def read_data(app: Rowlock, window: str) -> TopData:
    """Read everything that the screen shows."""
    panel = await app.stats.panel(window=window, jobs=_JOBS, tenants=0)
    waiting = panel.overview.states[State.PENDING]
    return TopData(panel, await app.jobs.list(states=[State.PENDING], limit=_PENDING) if waiting else [])


def _print(context: CommandContext, data: TopData) -> None:
    """One picture as plain lines, or everything as JSON."""
    if context.screen.as_json:
        panel = data.panel
        context.screen.json(
            {
                "overview": records.overview(panel.overview),
                "backlog": [records.backlog(item) for item in panel.backlog],
                "running": [records.running(job) for job in panel.running],
                "failures": [records.failures(item) for item in panel.failures],
                "tenants": panel.tenants,
                "throughput": panel.throughput,
                "pending": [records.job(job) for job in data.pending],
            }
        )
        return
    from rich.console import Console

    console = Console(highlight=False)
    if not sys.stdout.isatty():
        console.width = _PIPE_WIDTH
    head = frame(data, ViewState(), console.width, 4, place(context.app))[:2]
    panes = [pane_lines(pane, rows(pane, data), console.width, _ENDS, None) for pane in Pane]
    for line in [*head, *(line for lines in panes for line in lines)]:
        line.rstrip()
        console.print(line, no_wrap=True, crop=False, soft_wrap=True)


def place(app: Rowlock) -> str:
    """The database and schema, for the head of the screen."""
    database = app.database()
    return f"{shown(database.url)} {database.schema}".partition("?")[0]


class Top:
    """Reads, draws and handles keys until the user quits."""

    def __init__(self, app: Rowlock, every: float, window: str) -> None:
        self._app, self._every, self._window = app, every, window
        self._view = ViewState()
        self._data: TopData | None = None
        self._over = False
        self._redraw = asyncio.Event()
        self._hurry = asyncio.Event()
        self._yes: Callable[[], None] | None = None
        self._orders: set[asyncio.Task[None]] = set()
        self._since = 0.0
        self._terminal = Terminal(self.press, self._redraw.set)

    async def run(self) -> None:
        """Run until q, Ctrl-C or SIGTERM; the terminal is restored afterwards."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is not None:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, task.cancel)
        quiet = logging.NullHandler()  # without it Python's last resort would write over the picture
        logging.getLogger().addHandler(quiet)
        reading = asyncio.create_task(self._keep_reading())
        try:
            with self._terminal.held():
                while not self._over:
                    self._draw()
                    await self._until_redraw()
                    if reading.done():
                        await reading
        finally:
            logging.getLogger().removeHandler(quiet)
            reading.cancel()
            await asyncio.gather(reading, *self._orders, return_exceptions=True)

    async def _until_redraw(self) -> None:
        with contextlib.suppress(TimeoutError):
            # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the event.
            async with asyncio.timeout(1.0):
                await self._redraw.wait()
        self._redraw.clear()
        late = asyncio.get_running_loop().time() - self._since if self._since else 0.0
        if late > _LATE + self._every:
            self._view.away = f"no answer for {late:.0f} s"

    def _draw(self) -> None:
        width, height = self._terminal.size
        self._terminal.draw(_ansi(frame(self._data, self._view, width, height, place(self._app)), width))

    # --- looks -------------------------------------------------------------------------------------------------------

    async def _keep_reading(self) -> None:
        while True:
            if not self._view.paused:
                await self._read_once()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._hurry.wait()
            self._hurry.clear()

    async def _read_once(self) -> None:
        self._since = asyncio.get_running_loop().time()
        try:
            found = await read_data(self._app, self._window)
        except DatabaseUnreachable:
            self._view.away = "the database does not answer"
        except Exception as error:  # noqa: BLE001 - shown; a timeout or a restore may be over with the next look
            self._view.away = str(error) or type(error).__name__
        else:
            self._view.away = None
            # The answer came after p was pressed: the paused picture stays.
            self._data = self._data if self._view.paused and self._data else found
        self._since = 0.0
        self._redraw.set()

    # --- keys --------------------------------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """Handle a key, according to the state of the screen."""
        view = self._view
        if view.question is not None:
            self._answer(key)
        elif view.typing:
            self._type(key)
        elif view.helping:
            view.helping = False
        else:
            view.note = ""
            self._command(key)
        self._redraw.set()

    def _answer(self, key: str) -> None:
        yes, self._yes, self._view.question = self._yes, None, None
        if key in {"y", "Y"} and yes is not None:
            yes()
        else:
            self._view.note = "nothing was done"

    def _type(self, key: str) -> None:
        view = self._view
        if key in {"enter", "escape"}:
            view.typing = False
            view.wanted = view.wanted if key == "enter" else ""
        elif key == "backspace":
            view.wanted = view.wanted[:-1]
        elif len(key) == 1:
            view.wanted += key

    def _command(self, key: str) -> None:
        view = self._view
        moves = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "page up": -_PAGE,
            "page down": _PAGE,
            "home": -_ENDS,
            "end": _ENDS,
        }
        if key in moves:
            view.move(self._rows(), moves[key])
        elif key in {"tab", "back tab"}:
            panes = list(Pane)
            view.pane = panes[(panes.index(view.pane) + (1 if key == "tab" else -1)) % len(panes)]
        elif key == "/":
            view.typing, view.wanted = True, ""
        elif key == "escape":
            view.wanted = ""
        elif key == "p":
            view.paused = not view.paused
            self._hurry.set()
        elif key == "redraw":
            self._terminal.forget()
        elif key == "?":
            view.helping = True
        elif key == "q":
            self._over = True
        elif key in "csadr":
            self._order(key)

    def _rows(self) -> list[Row]:
        return [] if self._data is None else rows(self._view.pane, self._data, self._view.wanted)

    # --- orders ------------------------------------------------------------------------------------------------------

    def _order(self, key: str) -> None:
        """Ask before an order is given; only a resume is done at once."""
        view, found = self._view, self._rows()
        if not found:
            view.note = "nothing is selected"
            return
        chosen = found[view.selected(view.pane, found)]
        # The selection stays on the row that the question names, also if rows move.
        view.chosen[view.pane] = chosen.key, view.selected(view.pane, found)
        question, give = self._what(key, chosen)
        if give is None:
            view.note = question
        elif not question:
            self._start(give)
        else:
            view.question, self._yes = question, lambda: self._start(give)

    def _what(self, key: str, row: Row) -> tuple[str, Callable[[], Awaitable[str]] | None]:
        """The question and the order; if the key does not apply here, a note and None."""
        pane, name, app = self._view.pane, row.cells[0], self._app
        if pane is Pane.JOBS and key in "csa" and isinstance(row.key, int):
            number = row.key
            verb = {"c": "Cancel", "s": "Stop", "a": "Approve"}[key]
            order = {"c": app.jobs.cancel, "s": app.jobs.stop, "a": app.jobs.approve}[key]

            async def give() -> str:
                job = await order(number, by=current_user())
                asked = ", cancel requested" if job.cancel_requested and job.state is State.RUNNING else ""
                return f"{job.public_id} is {job.state}{asked}"

            return f"{verb} job {ids.encode(number)} ({row.cells[1]})?", give
        if pane is Pane.LANES and key in "dr":
            return (
                (f"Drain lane {name}?", self._lane(str(row.key), "drain"))
                if key == "d"
                else (
                    "",
                    self._lane(str(row.key), "resume"),
                )
            )
        if pane is Pane.WORKERS and key == "d":
            return f"Drain worker {name}? It ends its jobs and leaves.", self._worker(int(row.key))
        wanted = {"c": "a job", "s": "a job", "a": "a job", "d": "a lane or a worker", "r": "a lane"}[key]
        return f"{key} is for {wanted}; tab changes the pane", None

    def _lane(self, name: str, verb: str) -> Callable[[], Awaitable[str]]:
        async def give() -> str:
            lane = await (self._app.lanes.drain(name) if verb == "drain" else self._app.lanes.resume(name))
            return f"lane {lane.name} is {'open' if lane.enabled else 'drained'}"

        return give

    def _worker(self, number: int) -> Callable[[], Awaitable[str]]:
        async def give() -> str:
            (worker,) = await self._app.workers.drain(number)
            return f"worker {worker.name} is draining"

        return give

    def _start(self, give: Callable[[], Awaitable[str]]) -> None:
        async def carry_out() -> None:
            try:
                self._view.note = await give()
            except RowlockError as error:
                self._view.note = str(error)
            self._hurry.set()
            self._redraw.set()

        self._view.note = "…"
        task = asyncio.create_task(carry_out())
        self._orders.add(task)
        task.add_done_callback(self._orders.discard)


def _ansi(lines: list[Text], width: int) -> list[str]:
    from rich.console import Console

    console = Console(highlight=False, width=width)
    with console.capture() as captured:
        for line in lines:
            console.print(line, no_wrap=True, crop=True, overflow="crop")
    return captured.get().split("\n")[: len(lines)]
