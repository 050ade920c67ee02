"""`rowlock worker --processes`: the supervisor's process, and the connection of a worker process to it."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.exit_codes import Exit
from rowlock.cli.health.endpoint import answering
from rowlock.flow.supervise.control_line import SupervisorLine, line_from
from rowlock.flow.worker.process_replacement import STOPPING, unblock_signals
from rowlock.model.problem_codes import CODES, CONFIGURATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.app import Rowlock
    from rowlock.cli.context import CommandContext

logger = logging.getLogger("rowlock.cli")
_OWN: Final = frozenset({"processes", "reload", "reload_dir", "follow", "dev", "health"})


def line() -> SupervisorLine | None:
    """The connection to this process's supervisor; None: it has none. Opened before the application is imported."""
    found = line_from(os.environ)
    if found is not None:
        found.open()
    unblock_signals()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # A crash in C code, or a supervisor's SIGABRT, names the Python functions it happened in.
        faulthandler.enable()
    return found


def name_of(name: str | None, line: SupervisorLine | None) -> str | None:
    """The name of a worker process: its supervisor's name and its number."""
    if line is None:
        return name
    return f"{name or f'{socket.gethostname()}:{line.supervisor}'}/{line.number}"


def supervise(context: CommandContext, app: Rowlock, options: dict[str, Any]) -> None:
    """Run the supervisor until its processes have ended for good."""
    from rowlock.cli.process import reload

    # With --reload the reloading parent handles Ctrl-C.
    signals = STOPPING if options["follow"] is None else (signal.SIGTERM,)
    command = reload.command(context, {key: value for key, value in options.items() if key not in _OWN})
    refusal = asyncio.run(_supervise(app, command, signals, options["health"]))
    if refusal is not None:
        message, code = refusal
        context.screen.problem_of(CODES["unavailable"] if code == Exit.DATABASE else CONFIGURATION, message)
        raise SystemExit(code)


async def _supervise(
    app: Rowlock, command: list[str], signals: Iterable[signal.Signals], probed_at: str | None
) -> tuple[str, int] | None:
    from rowlock.flow.enqueue.wake import Waker
    from rowlock.flow.supervise.supervisor import Supervisor
    from rowlock.upkeep.duty import DutyContext
    from rowlock.upkeep.rescue import rescue_dead

    database = app.database()
    at = DutyContext(database, app.settings, Waker(database))
    supervisor = Supervisor(database, command, app.settings, rescue=lambda workers: rescue_dead(at, workers))
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        again = (
            "again: unfinished jobs are returned now" if received else "draining; send it again to return jobs at once"
        )
        logger.info("%s: %s", number.name, again)
        received.append(number)
        supervisor.stop()

    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        with answering(probed_at, supervisor.health):
            return await supervisor.run()
    finally:
        await app.close()
