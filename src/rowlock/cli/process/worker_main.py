"""`rowlock worker`: claim and run jobs until a signal comes. Imports no typer, whose memory a worker would keep."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.exit_codes import Exit, exit_of
from rowlock.cli.health.endpoint import answering
from rowlock.cli.process.development import described, door_of, opened, quiet, upgraded
from rowlock.cli.process.reload_child import reload_parent
from rowlock.cli.process.worker_shutdown import ShutdownControl
from rowlock.cli.screen.log_lines import JsonFormatter, TextFormatter
from rowlock.errors import DatabaseError, InvalidOption, RowlockError
from rowlock.flow.executors.os_process import settle_in
from rowlock.flow.run.process_exits import run_through_exits
from rowlock.model.database_url import shown
from rowlock.model.lane import kinds_by_lane
from rowlock.model.size import size
from rowlock.telemetry import JobLogFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from rowlock.api.server import BackgroundServer
    from rowlock.app import Rowlock
    from rowlock.cli.context import CommandContext
    from rowlock.cli.health.endpoint import Health
    from rowlock.flow.supervise.control_line import SupervisorLine
    from rowlock.flow.worker.worker import Worker

    Probes: TypeAlias = Callable[[Health], contextlib.AbstractContextManager[None]]

logger = logging.getLogger("rowlock.cli")
LEVELS: Final = ("debug", "info", "warning", "error")


def run(context: CommandContext, options: dict[str, Any]) -> None:
    """Run a worker, or a supervisor of several, with these options."""
    # Process 1 of a container ignores SIGTERM unless it has a handler; the event loop sets one only later.
    signal.signal(signal.SIGTERM, _leave)
    from rowlock.cli.process import supervise

    parent = reload_parent(options["follow"])
    line = supervise.line()
    context.require_app()
    chosen = _lanes(options["lanes"])
    if options["upkeep_only"] and (chosen is not None or options["processes"]):
        raise InvalidOption("--upkeep-only runs no jobs, so --lanes and --processes mean nothing beside it.")
    if options["reload"]:
        from rowlock.cli.process import reload

        set_up_logging(options["log_level"], as_json=context.screen.as_json)
        reload.watch(reload.command(context, options), options["reload_dir"])
        return
    with _refusals(line):
        app = context.app
        _configure(app, options)
        set_up_logging(options["log_level"], as_json=context.screen.as_json, number=line.number if line else None)
        if line is None and app.settings.processes and not options["upkeep_only"]:
            supervise.supervise(context, app, options)
            return
        shutdown, door = ShutdownControl(parent, line), door_of(app, options["door"])
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            name = supervise.name_of(options["name"], line)
            # A supervisor answers probes for its processes.
            probes = partial(answering, options["health"]) if line is None else _unprobed
            only = options["upkeep_only"]
            serving = _serve(
                app, chosen, name, shutdown, dev=options["dev"], door=door, probes=probes, upkeep_only=only
            )
            run_through_exits(runner, serving)


@contextlib.contextmanager
def _unprobed(_health: Health) -> Iterator[None]:
    yield


def _configure(app: Rowlock, options: dict[str, Any]) -> None:
    """Options of the command line override the environment and the code."""
    memory = options["max_memory"]
    says = {
        "processes": options["processes"],
        "max_jobs": options["max_jobs"],
        "max_memory": None if memory is None else size(memory, "--max-memory"),
    }
    app.settings = replace(app.settings, **{key: value for key, value in says.items() if value is not None})


@contextlib.contextmanager
def _refusals(line: SupervisorLine | None) -> Iterator[None]:
    """A supervised process that cannot start reports why to its supervisor, which prints it once."""
    try:
        yield
    except RowlockError as error:
        if line is None:
            raise
        line.send(refused=str(error), code=exit_of(error))
        raise SystemExit(exit_of(error)) from error


def _leave(*_: object) -> None:
    # Not typer.Exit: while the application is imported, an ordinary exception would look like one of the application's.
    raise SystemExit(Exit.OK)


async def _serve(
    app: Rowlock,
    lanes: list[str] | dict[str, int] | None,
    name: str | None,
    shutdown: ShutdownControl,
    *,
    dev: bool,
    door: BackgroundServer | None,
    probes: Probes,
    upkeep_only: bool = False,
) -> None:
    parent = shutdown.parent
    try:
        with quiet("rowlock", logging.ERROR, dev=dev):
            worker = app.make_worker(
                lanes,
                name=name,
                upkeep_only=upkeep_only,
                replacement=shutdown.replacement,
                supervisor=shutdown.supervisor,
            )
        shutdown.handle_signals(worker)
        if parent is not None:
            parent.report({"data_dir": None if app.settings.database_url else app.settings.data_dir})
        with probes(worker.health):
            if dev and not await shutdown.unless_stopped(upgraded(worker)):
                return
            await _work(worker, app, shutdown, dev=dev, door=door, limited=lanes is not None)
    finally:
        await app.close()
    if worker.outdated is not None:
        raise worker.outdated
    if worker.failure is not None:
        raise worker.failure
    shutdown.finish()


async def _work(
    worker: Worker, app: Rowlock, shutdown: ShutdownControl, *, dev: bool, door: BackgroundServer | None, limited: bool
) -> None:
    """Start the worker and drain it when it is to stop. limited: --lanes names its lanes."""
    # In a development session the reloading parent prints this, once.
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
        started = await shutdown.unless_stopped(worker.start())
    if not started:
        return
    if worker.options.upkeep_only:
        logger.log(level, "worker %s runs no jobs, only upkeep", worker.name)
    else:
        _log_lanes(worker, app, level)
    if limited:
        await _warn_of_unserved_lanes(worker, app)
    settle_in()
    async with opened(door) as api:
        if shutdown.parent is not None:
            shutdown.parent.report({**await described(worker, app), "api": api})
        await shutdown.until_stopped()
    await worker.stop()


def _log_lanes(worker: Worker, app: Rowlock, level: int) -> None:
    served = kinds_by_lane(worker.lanes.values(), app.handlers)
    for lane in sorted(worker.lanes.values(), key=lambda lane: lane.name):
        state = f"{lane.slots} slots" if lane.enabled else "drained"
        logger.log(level, "lane %s (%s): %s", lane.name, state, ", ".join(served[lane.name]) or "no kind of this app")


async def _warn_of_unserved_lanes(worker: Worker, app: Rowlock) -> None:
    """Name the lanes that have kinds of this application and no worker, as --lanes left them out everywhere."""
    try:
        every, workers = await app.lanes.list(), await app.workers.list()
    except DatabaseError:
        return  # only a hint; the worker itself waits for the database
    left = {
        name: kinds for name, kinds in kinds_by_lane(every, app.tasks).items() if kinds and name not in worker.lanes
    }
    for other in workers:
        left = {} if other.lanes is None else {name: left[name] for name in left if name not in other.lanes}
    for name, kinds in left.items():
        logger.warning(
            "no worker serves lane %s (%s): --lanes leaves it out here. Start one with --lanes %s, or without --lanes",
            name,
            ", ".join(kinds),
            name,
        )


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
    """The event loop of uvloop if that is installed; None: asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def set_up_logging(level: str, *, as_json: bool, number: int | None = None) -> None:
    """Lines on standard error, or objects on standard output. number: of a process under a supervisor."""
    if level.lower() not in LEVELS:
        raise InvalidOption(f"--log-level takes {', '.join(LEVELS)}; got {level!r}.")
    logging.getLogger("rowlock").setLevel(level.upper())
    # An application that set up logging when it was imported keeps its own.
    if as_json or not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stdout if as_json else sys.stderr)
        handler.setFormatter(JsonFormatter(number) if as_json else TextFormatter(number))
        logging.basicConfig(handlers=[handler], level=level.upper() if level.lower() != "debug" else "INFO", force=True)
    for each in logging.getLogger().handlers:
        each.addFilter(JobLogFilter())
