"""What `rowlock worker` does: claim and run jobs until told to stop. Without typer, whose memory it need not hold."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from rowlock.cli.exit_codes import Exit, exit_of
from rowlock.cli.process.development import described, door_of, opened, quiet, upgraded
from rowlock.cli.process.watcher import followed
from rowlock.cli.process.worker_orders import Orders
from rowlock.cli.screen.output import clean
from rowlock.errors import InvalidOption, RowlockError
from rowlock.flow.executors.os_process import settle_in
from rowlock.model.lane import kinds_by_lane
from rowlock.model.size import size
from rowlock.store.database import shown
from rowlock.telemetry import JobLogFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rowlock.api.server import BackgroundServer
    from rowlock.app import Rowlock
    from rowlock.cli.call import Call
    from rowlock.flow.supervise.control_line import SupervisorLine
    from rowlock.flow.worker.worker import Worker

logger = logging.getLogger("rowlock.cli")
LEVELS: Final = ("debug", "info", "warning", "error")
_ABOUT: Final = ("job_id", "kind", "lane", "attempt", "fence")
"""What the engine tells with a log record."""


def run(call: Call, given: dict[str, Any]) -> None:
    """Run a worker, or a supervisor of several, with these options."""
    # As process 1 of a container nothing ends us unless we ask for it: before the event loop listens, too.
    signal.signal(signal.SIGTERM, _leave)
    from rowlock.cli.process import supervise

    watcher = followed(given["follow"])
    line = supervise.line()
    call.require_app()
    chosen = _lanes(given["lanes"])
    if given["reload"]:
        from rowlock.cli.process import reload

        set_up_logging(given["log_level"], as_json=call.screen.as_json)
        reload.watch(reload.command(call, given), given["reload_dir"])
        return
    with _refusals(line):
        app = call.app
        _configure(app, given)
        set_up_logging(given["log_level"], as_json=call.screen.as_json, number=line.number if line else None)
        if line is None and app.settings.processes:
            supervise.supervise(call, app, given)
            return
        orders, door = Orders(watcher, line), door_of(app, given["door"])
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            name = supervise.name_of(given["name"], line)
            runner.run(_serve(app, chosen, name, orders, dev=given["dev"], door=door))


def _configure(app: Rowlock, given: dict[str, Any]) -> None:
    """What the command line says wins over the environment and the code."""
    memory = given["max_memory"]
    says = {
        "processes": given["processes"],
        "max_jobs": given["max_jobs"],
        "max_memory": None if memory is None else size(memory, "--max-memory"),
    }
    app.settings = replace(app.settings, **{key: value for key, value in says.items() if value is not None})


@contextlib.contextmanager
def _refusals(line: SupervisorLine | None) -> Iterator[None]:
    """A supervised process that cannot start tells its supervisor why, which tells the person, once."""
    try:
        yield
    except RowlockError as error:
        if line is None:
            raise
        line.send(refused=str(error), code=exit_of(error))
        raise SystemExit(exit_of(error)) from error


def _leave(*_: object) -> None:
    # Not typer.Exit: while the application is imported, an ordinary exception would pass for one of its own.
    raise SystemExit(Exit.OK)


async def _serve(
    app: Rowlock,
    lanes: list[str] | dict[str, int] | None,
    name: str | None,
    orders: Orders,
    *,
    dev: bool,
    door: BackgroundServer | None,
) -> None:
    watcher = orders.watcher
    try:
        with quiet("rowlock", logging.ERROR, dev=dev):
            worker = app.make_worker(lanes, name=name, replacement=orders.replacement, supervisor=orders.supervisor)
        orders.listen(worker)
        if watcher is not None:
            watcher.tell({"data_dir": None if app.settings.database_url else app.settings.data_dir})
        if dev and not await orders.unless_told(upgraded(worker)):
            return
        # In a development session the watcher tells these things, once.
        level = logging.DEBUG if dev else logging.INFO
        logger.log(
            level,
            "worker %s: database %s, schema %s, kinds %s",
            worker.name,
            shown(worker.database.url),
            worker.database.schema,
            ", ".join(sorted(app.handlers)) or "(none)",
        )
        with quiet("rowlock.worker", logging.WARNING, dev=dev):
            started = await orders.unless_told(worker.start())
        if started:
            _say_lanes(worker, app, level)
            settle_in()
            async with opened(door) as api:
                if watcher is not None:
                    watcher.tell({**await described(worker, app), "api": api})
                await orders.until_told()
            await worker.stop()
    finally:
        await app.close()
    if worker.outdated is not None:
        raise worker.outdated
    orders.carry_on()


def _say_lanes(worker: Worker, app: Rowlock, level: int) -> None:
    served = kinds_by_lane(worker.lanes.values(), app.handlers)
    for lane in sorted(worker.lanes.values(), key=lambda lane: lane.name):
        state = f"{lane.slots} slots" if lane.enabled else "drained"
        logger.log(level, "lane %s (%s): %s", lane.name, state, ", ".join(served[lane.name]) or "no kind of this app")


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


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop where that is installed; None: the usual one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Lines(logging.Formatter):
    """`14:03:22 → start …`; the level is named from warnings on, and the job where the message does not.

    number: of a process under a supervisor; its lines begin with it.
    """

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self._from = "" if number is None else f"[{number}] "

    @override
    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        message = record.getMessage()
        # The engine's own lines name their job.
        own = record.name.startswith("rowlock.") and record.name != "rowlock.handler"
        job = "" if own or not hasattr(record, "job_id") else f"  [{getattr(record, 'kind', '')} {record.job_id}]"
        text = f"{self.formatTime(record, '%H:%M:%S')} {self._from}{level}{message}{job}"
        return clean(f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text)


class JsonLines(logging.Formatter):
    """One object per record, with the job it is about and the number of the process."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self._from = {} if number is None else {"process": number}

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Time (ISO 8601), level, logger, message, and what the engine knows of the job."""
        about = {key: getattr(record, key) for key in _ABOUT if hasattr(record, key)}
        entry = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._from,
            "message": record.getMessage(),
            **about,
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


def set_up_logging(level: str, *, as_json: bool, number: int | None = None) -> None:
    """Lines on standard error, or objects on standard output. number: of a process under a supervisor."""
    if level.lower() not in LEVELS:
        raise InvalidOption(f"--log-level takes {', '.join(LEVELS)}; got {level!r}.")
    logging.getLogger("rowlock").setLevel(level.upper())
    # An application that set up logging when it was imported keeps its own.
    if as_json or not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stdout if as_json else sys.stderr)
        handler.setFormatter(JsonLines(number) if as_json else Lines(number))
        logging.basicConfig(handlers=[handler], level=level.upper() if level.lower() != "debug" else "INFO", force=True)
    for each in logging.getLogger().handlers:
        each.addFilter(JobLogFilter())
