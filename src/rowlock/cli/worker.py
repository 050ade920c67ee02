"""rowlock worker: a process that claims and runs jobs until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typing_extensions import override

from rowlock.cli.call import Call, register_sync
from rowlock.cli.exits import Exit
from rowlock.cli.show import clean
from rowlock.errors import InvalidOption
from rowlock.model.lane import kinds_by_lane
from rowlock.store.database import shown
from rowlock.telemetry import JobLogFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.app import Rowlock
    from rowlock.flow.worker import Worker

logger = logging.getLogger("rowlock.cli")
_LEVELS: Final = ("debug", "info", "warning", "error")
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
_ABOUT: Final = ("job_id", "public_id", "kind", "lane", "attempt", "fence")
"""What the engine tells with a log record."""


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "worker", worker, _run)


def worker(
    call: Call,
    lanes: Annotated[
        str | None, typer.Option(metavar="A,B | A=2,B=1", help="Only these lanes, with slots of their own if given.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Shown to operators; default: host and process id.")] = None,
    log_level: Annotated[str, typer.Option(metavar="|".join(_LEVELS), help="Least level that is logged.")] = "info",
) -> None:
    """Claim and run jobs. SIGTERM or SIGINT drains; a second one returns unfinished jobs at once.

    Logs go to standard error, one line per event; with --json to standard output, one object per line.
    """


def _run(call: Call, given: dict[str, Any]) -> None:
    # As process 1 of a container nothing ends us unless we ask for it: before the event loop listens, too.
    signal.signal(signal.SIGTERM, _leave)
    call.require_app()
    chosen = _lanes(given["lanes"])
    app = call.app
    _set_up_logging(given["log_level"], as_json=call.screen.as_json)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(app, chosen, given["name"]))


def _leave(*_: object) -> None:
    raise typer.Exit(Exit.OK)


async def _serve(app: Rowlock, lanes: list[str] | dict[str, int] | None, name: str | None) -> None:
    try:
        worker = app.make_worker(lanes, name=name)
        orders = Orders(worker)
        orders.listen()
        logger.info(
            "worker %s: database %s, schema %s, kinds %s",
            worker.name,
            shown(worker.database.url),
            worker.database.schema,
            ", ".join(sorted(app.handlers)) or "(none)",
        )
        if await orders.unless_told(worker.start()):
            _say_lanes(worker, app)
            await orders.told.wait()
            await worker.stop()
    finally:
        await app.close()


class Orders:
    """What the operating system tells the worker: the first signal drains, a second one hurries."""

    def __init__(self, worker: Worker) -> None:
        self.told = asyncio.Event()
        self._worker = worker

    def listen(self) -> None:
        """Hear signals from now on."""
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            loop.add_signal_handler(number, self._hear, number)

    async def unless_told(self, starting: Any) -> bool:  # noqa: ANN401 - a coroutine
        """Await the start, which may wait for a database for hours; False: a signal came first."""
        start, told = asyncio.ensure_future(starting), asyncio.ensure_future(self.told.wait())
        await asyncio.wait({start, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if not start.done():
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            return False
        await start
        return True

    def _hear(self, number: signal.Signals) -> None:
        if self.told.is_set():
            logger.warning("%s again: unfinished jobs are returned now", number.name)
            self._worker.hurry()
        else:
            logger.info("%s: draining; send it again to return unfinished jobs at once", number.name)
            self.told.set()


def _say_lanes(worker: Worker, app: Rowlock) -> None:
    served = kinds_by_lane(worker.lanes.values(), app.handlers)
    for lane in sorted(worker.lanes.values(), key=lambda lane: lane.name):
        state = f"{lane.slots} slots" if lane.enabled else "drained"
        logger.info("lane %s (%s): %s", lane.name, state, ", ".join(served[lane.name]) or "no kind of this app")


def _lanes(text: str | None) -> list[str] | dict[str, int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    pairs = [part.partition("=") for part in parts]
    if parts and not any(equals for _, equals, _ in pairs):
        return parts
    if not parts or not all(name and equals and slots.isdecimal() for name, equals, slots in pairs):
        raise InvalidOption(f"--lanes takes names (a,b), or a number of slots for each (a=2,b=1); got {text!r}.")
    return {name.strip(): int(slots) for name, _, slots in pairs}


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Lines(logging.Formatter):
    """`14:03:22 → start …`; the level is named from warnings on, and the job where the message does not."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        message = record.getMessage()
        # The engine's own lines name their job.
        own = record.name.startswith("rowlock.") and record.name != "rowlock.handler"
        job = "" if own or not hasattr(record, "job_id") else f"  [{getattr(record, 'kind', '')} {record.job_id}]"
        text = f"{self.formatTime(record, '%H:%M:%S')} {level}{message}{job}"
        return clean(f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text)


class JsonLines(logging.Formatter):
    """One object per record, with the job it is about."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Time (ISO 8601), level, logger, message, and what the engine knows of the job."""
        about = {key: getattr(record, key) for key in _ABOUT if hasattr(record, key)}
        entry = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **about,
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


def _set_up_logging(level: str, *, as_json: bool) -> None:
    if level.lower() not in _LEVELS:
        raise InvalidOption(f"--log-level takes {', '.join(_LEVELS)}; got {level!r}.")
    logging.getLogger("rowlock").setLevel(level.upper())
    # An application that set up logging when it was imported keeps its own.
    if as_json or not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stdout if as_json else sys.stderr)
        handler.setFormatter(JsonLines() if as_json else Lines())
        logging.basicConfig(handlers=[handler], level=level.upper() if level.lower() != "debug" else "INFO", force=True)
    for each in logging.getLogger().handlers:
        each.addFilter(JobLogFilter())
