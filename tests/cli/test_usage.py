from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
    ],
)
async def test_a_bad_application_path_is_explained_in_one_message(cli: Cli, path: str, message: str) -> None:
    cli.folder.joinpath("broken.py").write_text("1 / 0\n")
    cli.folder.joinpath("unparsable.py").write_text("def\n")
    cli.folder.joinpath("lacking.py").write_text("import not_installed\n")
    answer = await cli("enqueue", "greet", "--app", path)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
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
    for name in ("demo", "worker", "enqueue", "run-job", "jobs", "lanes", "workers", "schema"):
        assert f" {name} " in answer.out


async def test_unknown_commands_and_options_are_usage_errors(cli: Cli) -> None:
    unknown = await cli("jbos")
    assert unknown.code == 2
    assert "Did you mean 'jobs'?" in unknown.err
    assert (await cli("jobs", "ls", "--colour")).code == 2


async def test_options_override_what_the_application_says(cli: Cli) -> None:
    public_id = await cli.enqueue("greet", name="Ada")
    cli.folder.joinpath("elsewhere.py").write_text(f"from rowlock import Rowlock\n\napp = Rowlock({NOWHERE!r})\n")
    assert (await cli("jobs", "ls", "--app", "elsewhere:app")).code == 3
    found = await cli("jobs", "ls", "--app", "elsewhere:app", "--database-url", cli.url, "--json")
    assert [job["id"] for job in found.json] == [public_id]
