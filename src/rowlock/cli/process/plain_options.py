"""Plain calls of `rowlock worker` are read here, at a glance; typer reads and explains all others.

A worker lives long, and typer brings pydantic along to read a command line: ten megabytes that would stay with it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Plain:
    """An option with a plain value. envvar: where its value comes from if it is not given; least: of a number."""

    parameter: str
    sort: type = str
    default: object = None
    envvar: str = ""
    least: int | None = None

    def read(self, text: str) -> Any:  # noqa: ANN401 - of any option
        """The value; None: it takes typer to say what is wrong with it."""
        if self.sort is not int:
            return text or None
        number = int(text) if text.isascii() and text.isdigit() else None
        return None if number is None or (self.least is not None and number < self.least) else number


OPTIONS: Final = {
    "--lanes": Plain("lanes"),
    "--name": Plain("name"),
    "--log-level": Plain("log_level", default="info"),
    "--processes": Plain("processes", int, least=0),
    "--max-jobs": Plain("max_jobs", int, least=0),
    "--max-memory": Plain("max_memory"),
    "--reload": Plain("reload", bool, default=False),
    "--follow": Plain("follow", int),
    "--dev": Plain("dev", bool, default=False),
    "--door": Plain("door", int),
    "--app": Plain("app_path", envvar="ROWLOCK_APP"),
    "--database-url": Plain("database_url"),
    "--schema": Plain("schema"),
    "--json": Plain("as_json", bool, default=False),
}
"""What cli.worker declares to typer, but for the list --reload-dir."""


def worker(words: Sequence[str]) -> bool:
    """Run the command if this is a plain call of it; False: it is not, and nothing was done."""
    given = read(words, os.environ)
    if given is None:
        return False
    from rowlock.cli.call import answer
    from rowlock.cli.process.worker_main import run

    answer(run, given)
    return True


def read(words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """What typer would make of these words; None: ask it."""
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
            # A word that looks like an option may be one: typer knows.
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
