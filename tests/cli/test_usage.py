from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer

from rowlock import ConfigurationError
from rowlock.cli.context import CommandContext
from rowlock.cli.root import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Cli

NOWHERE = "postgresql://ada:horse@127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("tasks", "Did you mean tasks:app?"),
        ("task:app", "Did you mean 'tasks'?"),
        ("tasks:ap", "Did you mean 'app'?"),
        ("tasks:nothing", "Its applications: app."),
        ("tasks:number", "is a int, not a Rowlock application. Did you mean tasks:app?"),
        ("broken:app", "Importing 'broken' failed: ZeroDivisionError: division by zero"),
        ("unparsable:app", "Importing 'unparsable' failed: SyntaxError"),
        ("lacking:app", "No module named 'not_installed'"),
        ("unset:app", "Importing 'unset' failed: KeyError: 'SHOP_TOKEN' ({folder}/unset.py, line 2)"),
    ],
)
async def test_a_bad_application_path_is_explained_in_one_message(cli: Cli, path: str, message: str) -> None:
    cli.folder.joinpath("broken.py").write_text("1 / 0\n")
    cli.folder.joinpath("unparsable.py").write_text("def\n")
    cli.folder.joinpath("lacking.py").write_text("import not_installed\n")
    # Raised in Python's own library, which has no file to look at.
    cli.folder.joinpath("unset.py").write_text("import os\nos.environ['SHOP_TOKEN']\n")
    answer = await cli("enqueue", "greet", "--app", path)
    assert (answer.code, answer.out) == (2, "")
    assert message.format(folder=cli.folder.resolve()) in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["jobs", "ls"], ["schema", "status"], ["lanes", "ls"], ["workers", "ls"]])
async def test_an_unreachable_database_is_exit_code_3(cli: Cli, arguments: list[str]) -> None:
    answer = await cli(*arguments, "--database-url", NOWHERE, "--json")
    assert (answer.code, answer.out) == (3, "")
    assert "cannot be reached" in answer.err
    assert "horse" not in answer.err


async def test_a_url_that_is_none_and_a_wrong_setting_are_usage_errors(cli: Cli) -> None:
    url = await cli("jobs", "ls", "--database-url", "mysql://localhost/jobs")
    assert url.code == 2
    assert "postgresql://" in url.err
    setting = await cli("jobs", "ls", ROWLOCK_LISTEN="perhaps")
    assert setting.code == 2
    assert "ROWLOCK_LISTEN" in setting.err


async def test_help_documents_the_exit_codes(cli: Cli) -> None:
    answer = await cli("--help", COLUMNS="200")
    assert answer.code == 0
    assert "Exit codes" in answer.out
    for name in (
        "demo",
        "dev",
        "doctor",
        "stats",
        "worker",
        "enqueue",
        "run-job",
        "jobs",
        "lanes",
        "workers",
        "schema",
    ):
        assert f" {name} " in answer.out


async def test_unknown_commands_and_options_are_usage_errors(cli: Cli) -> None:
    unknown = await cli("jbos")
    assert unknown.code == 2
    assert "Did you mean 'jobs'?" in unknown.err
    option = await cli("jobs", "ls", "--stat", "queued", COLUMNS="120")
    assert option.code == 2
    assert "--state" in option.err


def test_every_command_can_print_json() -> None:
    names = {"jobs watch", "workers drain", "schema sql", "doctor", "dev", "worker"}
    found = dict(leaves(typer.main.get_command(build())))
    assert names <= found.keys()
    assert [name for name, options in found.items() if "--json" not in options] == []


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:  # noqa: ANN401 - typer's own click
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from leaves(child, f"{path} {name}".strip())
    else:
        yield path, {option for parameter in command.params for option in parameter.opts}


def test_the_only_application_of_the_folder_needs_no_option_to_develop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.joinpath("tasks.py").write_text("from rowlock import Rowlock\n\napp = Rowlock()\n")
    monkeypatch.chdir(tmp_path)
    context = CommandContext(None, None, None, as_json=False)
    context.require_app(find=True)
    assert context.app_path == "tasks:app"
    assert "Using the application tasks:app; --app or ROWLOCK_APP chooses another." in capsys.readouterr().err


@pytest.mark.parametrize(("find", "files"), [(True, ["mails", "tasks"]), (False, ["tasks"])])
def test_applications_that_are_not_taken_by_themselves_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: bool, files: list[str]
) -> None:
    for file in files:
        tmp_path.joinpath(f"{file}.py").write_text("from rowlock import Rowlock\n\napp = Rowlock()\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        CommandContext(None, None, None, as_json=False).require_app(find=find)
    assert str(caught.value).endswith(f" Found in this folder: {', '.join(f'{file}:app' for file in files)}.")


async def test_options_override_what_the_application_says(cli: Cli) -> None:
    public_id = await cli.enqueue("greet", name="Ada")
    cli.folder.joinpath("elsewhere.py").write_text(f"from rowlock import Rowlock\n\napp = Rowlock({NOWHERE!r})\n")
    assert (await cli("jobs", "ls", "--app", "elsewhere:app")).code == 3
    found = await cli("jobs", "ls", "--app", "elsewhere:app", "--database-url", cli.url, "--json")
    assert [job["id"] for job in found.json] == [public_id]
