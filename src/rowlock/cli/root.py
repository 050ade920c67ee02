"""Every command under one name."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Final

import typer

import rowlock
from rowlock.cli.exit_codes import EPILOG

_COMMANDS: Final = ("demo", "dev", "worker", "serve", "enqueue", "stats", "top", "doctor", "bench")
"""Modules that add a command of their name, in the order of --help."""
_GROUPS: Final = (
    "jobs",
    "workflows",
    "approvals",
    "lanes",
    "limits",
    "workers",
    "schedules",
    "locks",
    "schema",
    "tokens",
    "roles",
    "audit",
)
"""Modules with a group of commands of their name."""
_ELSEWHERE: Final = {"run-job": "enqueue"}
"""Commands that a module of another name adds."""


def build(called: str = "") -> typer.Typer:
    """The command line. called: the command it is made for, and none but its module is imported; else all of them."""
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
    every = (*_COMMANDS, *_GROUPS)
    module = _ELSEWHERE.get(called, called)
    for name in (module,) if module in every else every:
        _add(root, name)
    return root


def _add(root: typer.Typer, name: str) -> None:
    module = import_module(f"rowlock.cli.commands.{name}")
    if name in _COMMANDS:
        module.add_to(root)
        return
    if name == "jobs":
        from rowlock.cli.commands import edit, workflows

        edit.add_to(module.group)
        workflows.add_signal_to(module.group)
    root.add_typer(module.group, name=name)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"rowlock {rowlock.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Background jobs for Python on one PostgreSQL table."""
