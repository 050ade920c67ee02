"""Every command with strange values for its options and arguments: a documented exit code, and never a traceback."""

from __future__ import annotations

import logging
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cli.conftest import TASKS
from tests.fuzz.profile import PATIENCE, tried
from tests.fuzz.stage import THERE, stage
from tests.fuzz.strange import IDS, NUMBERS, SPANS, TEXTS, short
from typer.testing import CliRunner

from rowlock.cli.exit_codes import Exit
from rowlock.cli.root import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fuzz.conftest import Bench


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """What a worker sets up for its process is not to stay with this one."""
    engine, term = logging.getLogger("rowlock"), signal.getsignal(signal.SIGTERM)
    before = engine.level, logging.root.level, logging.root.handlers[:]
    yield
    engine.setLevel(before[0])
    logging.root.setLevel(before[1])
    logging.root.handlers[:] = before[2]
    signal.signal(signal.SIGTERM, term)


LEFT_OUT: Final = {
    ("demo",): "starts a server and workers of its own",
    ("bench",): "loads the machine",
    ("dev",): "runs until it is stopped",
    ("worker",): "runs until it is stopped",
    ("serve",): "runs until it is stopped",
    ("mcp",): "runs until its client hangs up",
    ("top",): "runs until it is stopped",
    ("jobs", "watch"): "runs until every job is final",
    ("schema", "upgrade"): "the schema is what the others stand on",
    ("schema", "downgrade"): "the schema is what the others stand on",
}
"""Asked with an application or a database that is none: they end before they begin."""
NOWHERE: Final = st.sampled_from(["--app", "--database-url"])
SAID: Final = st.one_of(THERE, IDS.filter(short).map(str), TEXTS, SPANS.map(str), st.just("{}"))


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - typer's
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ROOT: Final = typer.main.get_command(build())
COMMANDS: Final = list(commands(ROOT))


def written(text: str) -> str:
    """As a shell can pass it: no NUL, and of surrogates those that stand for a byte that is no UTF-8."""
    return "".join("\udcff" if "\ud800" <= letter <= "\udfff" else letter for letter in text.replace("\0", ""))


def values_of(parameter: Any) -> st.SearchStrategy[str]:  # noqa: ANN401 - typer's
    if parameter.bare_type in (int, float):
        return (NUMBERS.map(str) | TEXTS).map(written)
    if words := get_args(parameter.bare_type):
        return (st.sampled_from(list(map(str, words))) | SAID).map(written)
    return SAID.map(written)


def words_of(parameter: Any) -> st.SearchStrategy[list[str]]:  # noqa: ANN401 - typer's
    if parameter.param_type_name == "option":
        if parameter.name == "follow":
            return st.just([])
        flag = parameter.opts[-1]
        if parameter.is_flag:
            return st.sampled_from([[], [flag]])
        return st.just([]) | st.just([]) | values_of(parameter).map(lambda value: [f"{flag}={value}"])
    some = st.lists(values_of(parameter), min_size=parameter.required, max_size=2 if parameter.nargs == -1 else 1)
    return some.map(lambda values: [value for value in values if not value.startswith("-")])


def calls_of(path: tuple[str, ...], command: Any) -> st.SearchStrategy[list[str]]:  # noqa: ANN401 - typer's
    if path in LEFT_OUT:
        # Without a colon: rowlock dev would wait for the file of module:attribute to be written.
        nothing = SAID.map(written).map(lambda text: text.replace(":", "") or "x")
        return st.tuples(NOWHERE, nothing).map(lambda pair: [*path, f"{pair[0]}={pair[1]}"])
    options = [one for one in command.params if one.name not in ("help", "app_path", "database_url", "schema")]
    return st.tuples(*map(words_of, options), st.sampled_from([[], ["--json"], ["--app=tasks:app"]])).map(
        lambda parts: [*path, *(word for part in parts for word in part)]
    )


CALLS: Final = st.sampled_from(COMMANDS).flatmap(lambda found: calls_of(*found))


@pytest.mark.timeout(2 * PATIENCE)
def test_every_call_ends_with_a_documented_code_and_a_word(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run(stage(bench))
    tmp_path.joinpath("tasks.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("ROWLOCK_APP", "ROWLOCK_SCHEMA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", bench.url)
    monkeypatch.setenv("EDITOR", "true")
    runner = CliRunner()

    @tried(60)
    @given(CALLS)
    @example(["jobs", "ls", "--kind=\udcff"])
    @example(["jobs", "ls", "\udcff"])
    @example(["jobs", "show", "\udcff"])
    @example(["jobs", "show", "٣"])
    @example(["jobs", "show", "9" * 5000])
    @example(["jobs", "cancel", "1", "--note=\udcff"])
    @example(["jobs", "ls", "--limit=" + "9" * 30])
    @example(["enqueue", "plain", "--args={", "--app=tasks:app"])
    @example(["enqueue", "greet", '--args={"name":"\udcff"}', "--app=tasks:app"])
    @example(["enqueue", "greet", '--args={"name":"\\ud800"}', "--app=tasks:app"])
    @example(["schedules", "add", "a", "plain", "--cron=0 0 30 2 *"])
    def one(words: list[str]) -> None:
        answer = runner.invoke(build(), words, input="")
        said = f"{words}: {answer.exit_code}\n{answer.output[-2000:]}\n{answer.exception!r}"
        assert answer.exception is None or isinstance(answer.exception, SystemExit), said
        assert answer.exit_code in set(Exit), said
        assert "Traceback" not in answer.output, said
        if answer.exit_code in (Exit.FAILED, Exit.USAGE, Exit.DATABASE):
            assert answer.output.strip(), said

    one()


def test_no_command_is_forgotten() -> None:
    assert {path for path, _ in COMMANDS} >= LEFT_OUT.keys()
    assert len(COMMANDS) - len(LEFT_OUT) > 50
