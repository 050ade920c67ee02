"""Reads plain command lines of `rowlock worker` without typer; typer reads all others and explains mistakes.

A worker lives long, and typer brings pydantic along: ten megabytes that it would keep.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class PlainOption:
    """An option with one value. envvar: the variable that has its default; least: the smallest number."""

    parameter: str
    sort: type = str
    default: object = None
    envvar: str = ""
    least: int | None = None

    def read(self, text: str) -> Any:  # noqa: ANN401 - of any option
        """The value; None: it is wrong, and typer says why."""
        if self.sort is not int:
            return text or None
        number = int(text) if text.isascii() and text.isdigit() else None
        return None if number is None or (self.least is not None and number < self.least) else number


OPTIONS: Final = {
    "--lanes": PlainOption("lanes"),
    "--name": PlainOption("name"),
    "--log-level": PlainOption("log_level", default="info"),
    "--processes": PlainOption("processes", int, least=0),
    "--max-jobs": PlainOption("max_jobs", int, least=0),
    "--max-memory": PlainOption("max_memory"),
    "--upkeep-only": PlainOption("upkeep_only", bool, default=False),
    "--health": PlainOption("health", envvar="ROWLOCK_HEALTH"),
    "--reload": PlainOption("reload", bool, default=False),
    "--follow": PlainOption("follow", int),
    "--dev": PlainOption("dev", bool, default=False),
    "--door": PlainOption("door", int),
    "--app": PlainOption("app_path", envvar="ROWLOCK_APP"),
    "--database-url": PlainOption("database_url"),
    "--schema": PlainOption("schema"),
    "--json": PlainOption("as_json", bool, default=False),
}
"""The options of commands/worker.py, except the list --reload-dir."""


def worker(words: Sequence[str]) -> bool:
    """Run the command if its command line is plain; False: it is not, and nothing was done."""
    options = read(words, os.environ)
    if options is None:
        return False
    from rowlock.cli.context import run_command
    from rowlock.cli.process.worker_main import run

    run_command(run, options)
    return True


def read(words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The options as typer would read them; None: leave it to typer."""
    found: dict[str, Any] = {"reload_dir": None}
    left = list(words)
    while left:
        name, equals, text = left.pop(0).partition("=")
        option = OPTIONS.get(name)
        if option is None or option.parameter in found:
            return None
        if option.sort is bool:
            value = None if equals else True
        else:
            # A word that looks like an option is left to typer.
            value = option.read(text if equals else left.pop(0) if left and left[0][:1] != "-" else "")
        if value is None:
            return None
        found[option.parameter] = value
    for option in OPTIONS.values():
        said = environment.get(option.envvar) if option.envvar else None
        found.setdefault(option.parameter, option.default if said is None else option.read(said))
        if said == "":
            return None
    return found
