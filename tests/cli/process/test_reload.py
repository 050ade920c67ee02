from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.cli.processes import ended, exists, lines_until
from tests.waiting import eventually

from rowlock.cli.process.file_changes import is_source
from rowlock.cli.process.free_port import listening
from rowlock.model.state import State
from rowlock.store.embedded import home

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cli.conftest import Cli

    from rowlock import Rowlock

pytestmark = pytest.mark.timeout(120)
MORE = """

@app.job("wave")
async def wave() -> str:
    return "waved"
"""


@contextlib.asynccontextmanager
async def session(cli: Cli, *arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process at the head of a group of its own, as a terminal starts it; whatever is left of the group is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowlock", *arguments),
        cwd=cli.folder,
        env=cli.environment | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def group_is_empty(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def edit(cli: Cli, more: str) -> None:
    source = cli.folder / "tasks.py"
    source.write_text(source.read_text() + more)


async def test_a_changed_file_restarts_the_worker_with_the_new_code(cli: Cli, app: Rowlock) -> None:
    async with session(cli, "worker", "--app", "tasks:app", "--reload") as process:
        await lines_until(process.stderr, "lane front")
        edit(cli, MORE)
        lines = await lines_until(process.stderr, "lane front")
        assert any("tasks.py changed: the worker starts again" in line for line in lines)
        public_id = await cli.enqueue("wave")
        await lines_until(process.stderr, "← done")
        assert (await app.jobs.wait(public_id, timeout=20)).result == "waved"
        process.send_signal(signal.SIGTERM)
        code, _, err = await ended(process)
        assert (code, "Traceback" in err) == (0, False)
        assert await group_is_empty(process.pid)
    assert await app.workers.list() == []


async def test_a_mistake_is_one_line_and_the_watch_goes_on(cli: Cli) -> None:
    source = cli.folder.joinpath("tasks.py").read_text()
    async with session(cli, "worker", "--app", "tasks:app", "--reload") as process:
        await lines_until(process.stderr, "lane front")
        edit(cli, "def\n")
        *_, mistake = await lines_until(process.stderr, "SyntaxError")
        assert mistake.startswith("rowlock: Importing 'tasks' failed: SyntaxError: ")
        assert mistake.count("line ") == 1
        await lines_until(process.stderr, "the worker ended with exit code 2: waiting for a change")
        edit(cli, "1 / 0\n")
        cli.folder.joinpath("tasks.py").write_text(source + MORE)
        await lines_until(process.stderr, "kinds count, explode, greet, hold, login, pay, wave")


async def test_running_jobs_go_back_to_the_queue_without_losing_an_attempt(cli: Cli, app: Rowlock) -> None:
    started, release = cli.folder / "started", cli.folder / "release"
    public_id = await cli.enqueue("hold", started=str(started), release=str(release))
    async with session(cli, "worker", "--app", "tasks:app", "--reload") as process:
        await eventually(lambda: exists(started), within=40)
        started.unlink()
        edit(cli, MORE)
        await eventually(lambda: exists(started), within=40)
        history = await app.jobs.history(public_id)
        assert (history.job.state, history.job.attempt) == (State.RUNNING, 1)
        assert [attempt.outcome for attempt in history.attempts] == ["interrupted"]
        release.touch()
        await lines_until(process.stderr, "← done")


async def test_ctrl_c_ends_every_process_and_returns_the_job(cli: Cli, app: Rowlock) -> None:
    started = cli.folder / "started"
    public_id = await cli.enqueue("hold", started=str(started), release=str(cli.folder / "release"))
    async with session(cli, "worker", "--app", "tasks:app", "--reload") as process:
        await eventually(lambda: exists(started), within=40)
        os.killpg(process.pid, signal.SIGINT)  # what a terminal sends, to the watcher and its child
        code, _, err = await ended(process)
        assert (code, "Traceback" in err) == (0, False)
        assert await group_is_empty(process.pid)
    job = await app.jobs.get(public_id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)


async def test_ctrl_c_while_the_child_starts_leaves_nothing_behind(cli: Cli) -> None:
    cli.folder.joinpath("tasks.py").write_text("import time\nopen('importing', 'w').close()\ntime.sleep(600)\n")
    async with session(cli, "worker", "--app", "tasks:app", "--reload") as process:
        await eventually(lambda: exists(cli.folder / "importing"), within=40)
        os.killpg(process.pid, signal.SIGINT)
        code, _, err = await ended(process)
        assert (code, err) == (0, "")
        assert await group_is_empty(process.pid)


async def test_a_killed_watcher_takes_its_child_along(cli: Cli, app: Rowlock) -> None:
    started = cli.folder / "started"
    public_id = await cli.enqueue("hold", started=str(started), release=str(cli.folder / "release"))
    async with session(cli, "worker", "--app", "tasks:app", "--reload") as process:
        await eventually(lambda: exists(started), within=40)
        process.kill()
        await process.wait()
        await eventually(lambda: group_is_empty(process.pid), within=40)
    job = await app.jobs.get(public_id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)


async def test_only_source_below_the_given_folder_counts(cli: Cli) -> None:
    lib = cli.folder / "lib"
    lib.mkdir()
    async with session(cli, "worker", "--app", "tasks:app", "--reload", "--reload-dir", "lib") as process:
        await lines_until(process.stderr, "lane front")
        edit(cli, MORE)
        fresh = lib / "fresh"
        fresh.mkdir()
        fresh.joinpath("query.sql").touch()
        lines = await lines_until(process.stderr, "changed: the worker starts again")
        assert "lib/fresh/query.sql changed" in lines[-1]


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("tasks.py", True),
        ("package/queries/find.sql", True),
        ("pyproject.toml", True),
        (".env", True),
        (".env.local", True),
        ("notes.md", False),
        ("package/__pycache__/tasks.cpython-311.pyc", False),
        (".venv/lib/site.py", False),
        ("web/node_modules/tool/setup.py", False),
        (".rowlock/data/postgresql.auto.toml", False),
    ],
)
def test_what_people_edit_counts_as_source(tmp_path: Path, path: str, counts: bool) -> None:
    assert is_source(str(tmp_path / path), [tmp_path]) is counts
    assert not is_source(str(tmp_path / path), [tmp_path / "elsewhere"])


async def test_without_the_extra_the_pip_line_is_printed(cli: Cli) -> None:
    cli.folder.joinpath("watchfiles.py").write_text("raise ImportError\n")
    for verb in (["worker", "--reload"], ["dev"]):
        answer = await cli(*verb, "--app", "tasks:app")
        assert answer.code == 2
        assert "rowlock: watchfiles is not installed. Install it with: pip install 'rowlock[reload]'\n" in answer.err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--app", "tasks", "--app takes module:attribute, such as tasks:app; got 'tasks'. Did you mean tasks:app?"),
        ("--database-url", "here", "Expected a database URL like postgresql://user@host/name, got 'here'."),
    ],
)
async def test_an_option_that_no_edit_can_mend_ends_the_session(cli: Cli, option: str, value: str, said: str) -> None:
    for verb in (["worker", "--reload"], ["dev"]):
        app = [] if option == "--app" else ["--app", "tasks:app"]
        answer = await cli(*verb, *app, option, value)
        assert (answer.code, said in answer.err, "waiting for a change" in answer.err) == (2, True, False)


async def test_a_reload_folder_that_is_none_is_refused(cli: Cli) -> None:
    answer = await cli("worker", "--app", "tasks:app", "--reload", "--reload-dir", "nowhere")
    assert answer.code == 2
    assert "--reload-dir takes a folder" in answer.err


async def test_dev_creates_the_schema_and_says_what_runs_where(cli: Cli, empty_database_url: str) -> None:
    async with session(cli, "dev", "--app", "tasks:app", ROWLOCK_DATABASE_URL=empty_database_url) as process:
        text = "".join(await lines_until(process.stderr, "Ctrl-C"))
        assert "app       tasks:app, 6 kinds\n" in text
        assert "schema    rowlock, version " in text
        assert "lane      default  10 slots  count, explode, hold, login, pay\n" in text
        assert "          front    10 slots  greet\n" in text
        assert f"files below {cli.folder}" in text
        api = re.search(r"^  api       (http://127\.0\.0\.1:\d+/api/v1)$", text, re.MULTILINE)
        assert api is not None, text
        token = re.search(rf"^  open      {re.escape(api[1])}/auth/local\?token=(\S+)$", text, re.MULTILINE)
        assert token is not None, text
        headers = {"Authorization": f"Bearer {token[1]}"}  # the same after each reload
        async with httpx.AsyncClient(base_url=api[1], timeout=20, headers=headers) as client:
            kinds = (await client.get("/kinds")).json()["items"]
            assert {kind["name"] for kind in kinds} == {"count", "explode", "greet", "hold", "login", "pay"}
        edit(cli, MORE)
        lines = await lines_until(process.stderr, "is up after")
        async with httpx.AsyncClient(base_url=api[1], timeout=20, headers=headers) as client:
            done = await client.post("/jobs", json={"kind": "wave"}, headers={"Prefer": "wait=20"})
            assert (done.status_code, done.json()["result"]) == (200, "waved")
        assert lines[-1].endswith("7 kinds, new wave\n")
        assert "lane" not in "".join(lines)
        process.send_signal(signal.SIGINT)
        assert (await ended(process))[0] == 0


async def test_dev_takes_the_next_port_and_a_chosen_one_or_none(cli: Cli) -> None:
    with listening(None) as first, listening(None) as second:
        ports = [each.getsockname()[1] for each in (first, second)]
        assert 8000 <= ports[0] < ports[1]
        refused = await cli("dev", "--app", "tasks:app", "--port", str(ports[0]))
        assert (refused.code, "Choose another with --port" in refused.err) == (2, True), refused.err


async def test_dev_without_the_server_says_so_in_one_line(cli: Cli) -> None:
    cli.folder.joinpath("fastapi.py").write_text("raise ModuleNotFoundError(name='fastapi')\n")
    async with session(cli, "dev", "--app", "tasks:app") as process:
        text = "".join(await lines_until(process.stderr, "Ctrl-C"))
        assert (
            "  api       not served: fastapi is not installed. Install it with: pip install 'rowlock[server]'\n" in text
        )
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0


async def test_dev_waits_for_a_database_that_is_away(cli: Cli) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    async with session(cli, "dev", "--app", "tasks:app", "--database-url", url) as process:
        await lines_until(process.stderr, "waits: PostgreSQL at postgresql://nobody@127.0.0.1:1/none cannot be reached")
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0


async def test_dev_without_a_url_keeps_one_embedded_database_through_reloads(cli: Cli, tmp_path: Path) -> None:
    folder = home.find(tmp_path / "postgres").path
    environment = {"ROWLOCK_DATABASE_URL": "", "ROWLOCK_DATA_DIR": str(tmp_path / "postgres")}
    try:
        async with session(cli, "dev", "--app", "tasks:app", **environment) as process:
            text = "".join(await lines_until(process.stderr, "Ctrl-C"))
            assert f"database  PostgreSQL 18, embedded, in {folder}\n" in text
            server = folder.joinpath("data", "postmaster.pid").read_text()
            edit(cli, MORE)
            await lines_until(process.stderr, "is up after")
            assert folder.joinpath("data", "postmaster.pid").read_text().split()[0] == server.split()[0]
            process.send_signal(signal.SIGINT)
            assert (await ended(process))[0] == 0
        await eventually(lambda: is_gone(folder / "data" / "postmaster.pid"))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def is_gone(path: Path) -> bool:
    return not await exists(path)
