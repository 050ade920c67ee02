from __future__ import annotations

import inspect
import os
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

import pytest
import typer

from rowlock.cli import command
from rowlock.cli.commands.worker import worker
from rowlock.cli.process import plain_options

if TYPE_CHECKING:
    from collections.abc import Iterator


def declared() -> Iterator[tuple[str, plain_options.PlainOption]]:
    """What typer is told about the worker's options, but for lists."""
    for parameter in command._parameters(worker):
        annotation, info = get_args(parameter.annotation)[:2]
        sort = next((member for member in get_args(annotation) if member is not NoneType), annotation)
        if sort not in (str, int, bool):
            assert parameter.name == "reload_dir"
            continue
        # Inside Annotated[] the first name stands where a default would.
        names = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        option = plain_options.PlainOption(parameter.name, sort, default, info.envvar or "", info.min)
        yield from ((name, option) for name in names or [f"--{parameter.name.replace('_', '-')}"])


def test_the_options_are_those_that_typer_knows() -> None:
    assert dict(declared()) == plain_options.OPTIONS


class Asked(Exception):
    """Carries the options that a command was called with."""


def by_typer(words: list[str]) -> dict[str, Any]:
    root = typer.Typer()

    def run(call: object, given: dict[str, Any]) -> None:
        raise Asked(vars(call), given)

    root.callback()(lambda: None)
    command.register_sync(root, "worker", worker, run)
    with pytest.raises(Asked) as asked:
        root(["worker", *words], standalone_mode=False)
    call, given = asked.value.args
    common = {key: call[key] for key in ("app_path", "database_url", "schema")}
    return {**given, **common, "as_json": call["screen"].as_json}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--app", "tasks:app"],
        ["--app=tasks:app", "--lanes=a=2,b=1", "--name", "w 1"],
        ["--json", "--dev", "--processes", "2", "--max-jobs=0", "--max-memory=1GB", "--log-level", "debug"],
        ["--database-url=postgresql://u:p=1@h/d", "--schema", "jobs", "--follow=3", "--door", "4", "--reload"],
    ],
)
def test_plain_calls_are_read_as_typer_reads_them(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_APP", "other:app")
    assert plain_options.read(words, os.environ) == by_typer(words)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--nonsense"],
        ["here"],
        ["--"],
        ["--app"],
        ["--app="],
        ["--app", "--json"],
        ["--name", "-x"],
        ["--json=yes"],
        ["--processes", "many"],
        ["--processes=-1"],
        ["--processes", "٣"],
        ["--app", "a:b", "--app", "c:d"],
        ["--reload-dir", "src"],
    ],
)
def test_whatever_else_is_left_to_typer(words: list[str]) -> None:
    assert plain_options.read(words, {}) is None


def test_an_empty_variable_is_left_to_typer() -> None:
    assert plain_options.read([], {"ROWLOCK_APP": ""}) is None
    given = plain_options.read([], {})
    assert given is not None
    assert given["app_path"] is None
