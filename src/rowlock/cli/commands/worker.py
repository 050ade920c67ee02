"""rowlock worker: a process that claims and runs jobs until it is told to stop; its options."""

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
            help="Only these lanes, with slots of their own if given.",
            autocompletion=completion.lanes,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Shown to operators; default: host and process id.")] = None,
    log_level: Annotated[str, typer.Option(metavar="|".join(LEVELS), help="Least level that is logged.")] = "info",
    processes: Annotated[
        int | None, typer.Option(min=0, help="Worker processes under a supervisor; 0: this process is the worker.")
    ] = None,
    max_jobs: Annotated[int | None, typer.Option(min=0, help="Start the process anew after so many jobs.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Start it anew above so much memory, such as 512MB.")
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start again whenever a source file changes.")] = False,
    reload_dir: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Watched with --reload; may be repeated; default: the current folder."),
    ] = None,
    follow: Annotated[int | None, typer.Option(hidden=True)] = None,
    dev: Annotated[bool, typer.Option("--dev", hidden=True)] = False,
    door: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Claim and run jobs. SIGTERM or SIGINT drains; a second one returns unfinished jobs at once.

    Logs go to standard error, one line per event; with --json to standard output, one object per line.
    """
