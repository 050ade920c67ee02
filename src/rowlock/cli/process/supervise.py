"""rowlock worker --processes: the supervisor; and what a worker process must know to be replaced."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.screen.output import complain
from rowlock.flow.supervise.control_line import SupervisorLine, line_from
from rowlock.flow.worker.process_replacement import STOPPING, unblock_signals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.app import Rowlock
    from rowlock.cli.call import Call

logger = logging.getLogger("rowlock.cli")
_OWN: Final = frozenset({"processes", "reload", "reload_dir", "follow", "dev"})


def line() -> SupervisorLine | None:
    """The line to this process's supervisor, if it has one; first of all, before the application is imported."""
    found = line_from(os.environ)
    if found is not None:
        found.open()
    unblock_signals()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # A crash in C code, or a supervisor's SIGABRT, names the Python functions it happened in.
        faulthandler.enable()
    return found


def name_of(given: str | None, line: SupervisorLine | None) -> str | None:
    """What a worker process is called: its supervisor's name and its number."""
    if line is None:
        return given
    return f"{given or f'{socket.gethostname()}:{line.supervisor}'}/{line.number}"


def supervise(call: Call, app: Rowlock, given: dict[str, Any]) -> None:
    """Run the supervisor until its processes have ended for good."""
    from rowlock.cli.process import reload

    # Under a watcher (--reload) Ctrl-C is its business.
    signals = STOPPING if given["follow"] is None else (signal.SIGTERM,)
    command = reload.command(call, {key: value for key, value in given.items() if key not in _OWN})
    refusal = asyncio.run(_supervise(app, command, signals))
    if refusal is not None:
        message, code = refusal
        complain(message)
        raise SystemExit(code)


async def _supervise(app: Rowlock, command: list[str], signals: Iterable[signal.Signals]) -> tuple[str, int] | None:
    from rowlock.flow.enqueue.wake import Waker
    from rowlock.flow.supervise.supervisor import Supervisor
    from rowlock.upkeep import duties

    database = app.database()
    at = duties.DutyContext(database, app.settings, Waker(database))
    supervisor = Supervisor(database, command, app.settings, rescue=lambda workers: duties.rescue_dead(at, workers))
    loop = asyncio.get_running_loop()
    told: list[signal.Signals] = []

    def hear(number: signal.Signals) -> None:
        again = (
            "again: unfinished jobs are returned now" if told else "draining; send it again to return unfinished jobs"
        )
        logger.info("%s: %s", number.name, again)
        told.append(number)
        supervisor.stop()

    for number in signals:
        loop.add_signal_handler(number, hear, number)
    try:
        return await supervisor.run()
    finally:
        await app.close()
