"""The typer application: every command, imported when it is asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer

import rowlock
from rowlock.cli.exit_codes import EPILOG, Exit
from rowlock.cli.screen.output import Screen
from rowlock.model.problem_codes import USAGE

_COMMANDS: Final = ("demo", "dev", "worker", "serve", "mcp", "enqueue", "stats", "top", "doctor", "bench")
"""Modules that add a command of their name, in the order of --help."""
_GROUPS: Final = (
    "jobs",
    "workflows",
    "approvals",
    "failures",
    "lanes",
    "limits",
    "retention",
    "workers",
    "schedules",
    "webhooks",
    "locks",
    "schema",
    "move",
    "tokens",
    "roles",
    "audit",
)
"""Modules with a group of commands of their name."""
_ELSEWHERE: Final = {"run-job": "enqueue"}
"""Commands that a module of another name adds."""

# click's ClickException, which typer brings along or imports, depending on its version.
_CLICK_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def build(called: str = "") -> typer.Typer:
    """The typer application. called: the command to run, whose module alone is imported; other words: all are."""
    root = typer.Typer(
        name="rowlock",
        help="Background jobs for Python on one PostgreSQL table.",
        epilog=EPILOG,
        no_args_is_help=True,
        # rich's tracebacks would print local variables, and with them secrets.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root)
    every = (*_COMMANDS, *_GROUPS)
    module = _ELSEWHERE.get(called, called)
    for name in (module,) if module in every else every:
        _add(root, name)
    return root


def run(words: list[str]) -> None:
    """Run one command line. With --json, a command line that cannot be read is a problem in JSON, too."""
    # Always the same name in usage lines and for completion, however it was started.
    application = build(words[0] if words else "")
    if "--json" not in words[: words.index("--") if "--" in words else None]:
        application(prog_name="rowlock")
        return
    try:
        code = application(prog_name="rowlock", standalone_mode=False)
    except typer.Abort:
        sys.exit(Exit.INTERRUPTED)
    except _CLICK_ERROR as error:
        Screen(as_json=True).problem_of(USAGE, error.format_message())
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else Exit.OK)


def _add(root: typer.Typer, name: str) -> None:
    module = import_module(f"rowlock.cli.commands.{name}")
    if name in _COMMANDS:
        module.add_to(root)
        return
    root.add_typer(module.group, name=name)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"rowlock {rowlock.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Background jobs for Python on one PostgreSQL table."""
