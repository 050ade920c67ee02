"""Every command under one name."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from rowlock.cli import (
    approvals,
    audit,
    bench,
    demo,
    dev,
    doctor,
    edit,
    enqueue,
    jobs,
    lanes,
    limits,
    locks,
    roles,
    schedules,
    schema,
    serve,
    stats,
    tokens,
    top,
    worker,
    workers,
    workflows,
)
from rowlock.cli.exits import EPILOG


def build() -> typer.Typer:
    """The command line, complete."""
    root = typer.Typer(
        name="rowlock",
        help="Background jobs for Python on one PostgreSQL table.",
        epilog=EPILOG,
        no_args_is_help=True,
        # Python's own traceback: rich's would print local variables, and with them secrets.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root)
    demo.add_to(root)
    dev.add_to(root)
    worker.add_to(root)
    serve.add_to(root)
    enqueue.add_to(root)
    stats.add_to(root)
    top.add_to(root)
    doctor.add_to(root)
    bench.add_to(root)
    edit.add_to(jobs.group)
    workflows.add_signal_to(jobs.group)
    root.add_typer(jobs.group, name="jobs")
    root.add_typer(workflows.group, name="workflows")
    root.add_typer(approvals.group, name="approvals")
    root.add_typer(lanes.group, name="lanes")
    root.add_typer(limits.group, name="limits")
    root.add_typer(workers.group, name="workers")
    root.add_typer(schedules.group, name="schedules")
    root.add_typer(locks.group, name="locks")
    root.add_typer(schema.group, name="schema")
    root.add_typer(tokens.group, name="tokens")
    root.add_typer(roles.group, name="roles")
    root.add_typer(audit.group, name="audit")
    return root


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"rowlock {metadata.version('rowlock')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Background jobs for Python on one PostgreSQL table."""
