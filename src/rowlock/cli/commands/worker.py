"""rowlock worker: the options of the worker process; process/worker_main runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rowlock.cli import completion
from rowlock.cli.command import register_sync
from rowlock.cli.context import CommandContext
from rowlock.cli.process.worker_main import LEVELS, run


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "worker", worker, run)


def worker(
    context: CommandContext,
    *,
    lanes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B | A=2,B=1",
            help="Serve only these lanes, optionally with this worker's own number of slots.",
            autocompletion=completion.lanes,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the worker; default: host and process id.")] = None,
    log_level: Annotated[str, typer.Option(metavar="|".join(LEVELS), help="Minimum log level.")] = "info",
    processes: Annotated[
        int | None, typer.Option(min=0, help="Number of worker processes under a supervisor; 0: no supervisor.")
    ] = None,
    max_jobs: Annotated[int | None, typer.Option(min=0, help="Replace the process after this many jobs.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Replace the process above this memory use, such as 512MB.")
    ] = None,
    upkeep_only: Annotated[
        bool, typer.Option("--upkeep-only", help="Run no jobs: rescue, expire, prune, fire schedules and deliver.")
    ] = False,
    health: Annotated[
        str | None,
        typer.Option(
            metavar="PORT|HOST:PORT|FILE|PATH.sock",
            envvar="ROWLOCK_HEALTH",
            help="Answer probes there: does it live, is it ready, has it drained. A PORT alone: from this machine.",
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart the worker whenever a source file changes.")
    ] = False,
    reload_dir: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Folder to watch with --reload; may be repeated; default: the current folder."
        ),
    ] = None,
    follow: Annotated[int | None, typer.Option(hidden=True)] = None,
    dev: Annotated[bool, typer.Option("--dev", hidden=True)] = False,
    door: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Claim and run jobs. SIGTERM or SIGINT drains; a second one returns unfinished jobs at once.

    Logs go to standard error, one line per event; with --json to standard output, one object per line.
    """
