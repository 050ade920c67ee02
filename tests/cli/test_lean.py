"""What a process that only works must not hold in memory: whole libraries that only other doors need."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest
from tests.waiting import in_time

import rowlock
from rowlock import Rowlock

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = frozenset(
    {
        # Reads annotations and command lines; its core alone reads plain values.
        "pydantic",
        "typer",
        "rich",
        "fastapi",
        "starlette",
        "uvicorn",
        "httpx",
        "sqlalchemy",
        "psycopg",
        "cronsim",
        "zoneinfo",
        "email",
        "zipfile",
        "importlib.metadata",
        "importlib.resources",
        "difflib",
        "pickle",
        "shutil",
        "tempfile",
        "multiprocessing",
        "concurrent.futures.process",
        "unittest",
        "urllib.request",
        "rowlock.api",
        "rowlock.compose.step",
        "rowlock.contrib",
        "rowlock.desk.operation_driver",
        "rowlock.desk.schedule_fire",
        "rowlock.desk.jobs",
        "rowlock.desk.search",
        "rowlock.desk.sync",
        "rowlock.flow.kinds.pydantic_schema",
        "rowlock.flow.executors.child_handle",
        "rowlock.flow.supervise.supervisor",
        "rowlock.model.times.cron",
        "rowlock.model.search",
        "rowlock.store.embedded",
    }
)
FLOOR = """
import asyncio, asyncpg, dataclasses, logging, pydantic_core
try:
    import uvloop
except ImportError:
    pass
"""
LOOKED = """
from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace

from rowlock import Rowlock
from rowlock.flow.enqueue.wake import Waker
from rowlock.upkeep.duty_runner import DutyRunner
from rowlock.upkeep.duties import DUTIES
from rowlock.upkeep.duty import DutyContext

app = Rowlock()


@app.job
async def look(times: int = 1, note: str | None = None) -> list[str]:
    database = app.database()
    for duty in DUTIES.values():
        await duty(DutyContext(database, app.settings, Waker(database)), SimpleNamespace(watched=timedelta(0)))
    await DutyRunner(database, app.settings, Waker(database), submit=app.submit).fire()
    return sorted(sys.modules)
"""


def loaded(code: str) -> set[str]:
    """Every module a fresh interpreter has after running this."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout))


@pytest.fixture(scope="module")
def floor() -> set[str]:
    """What the event loop, the driver and the validator bring along by themselves; it differs from Python to Python."""
    return loaded(FLOOR)


def heavy(modules: set[str], floor: set[str]) -> set[str]:
    return {name for name in modules - floor if any(name == one or name.startswith(f"{one}.") for one in HEAVY)}


def test_importing_rowlock_imports_its_errors_alone() -> None:
    ours = {name for name in loaded("import rowlock") if name.startswith("rowlock")}
    assert ours == {"rowlock", "rowlock.errors"}


def test_a_producer_imports_no_worker() -> None:
    modules = loaded("import rowlock\nrowlock.Rowlock('postgresql://nowhere/x')")
    assert {name for name in modules if name.startswith(("rowlock.flow.worker", "rowlock.upkeep"))} == set()


def test_the_help_of_a_command_imports_no_application() -> None:
    modules = loaded("import rowlock.cli.commands.jobs, rowlock.cli.commands.enqueue, rowlock.cli.commands.lanes")
    assert modules & {"rowlock.app", "asyncpg", "rich", "pydantic"} == set()


def test_importing_rowlock_brings_nothing_heavy(floor: set[str]) -> None:
    assert heavy(loaded("import rowlock\nrowlock.Rowlock('postgresql://nowhere/x')"), floor) == set()


def test_an_enqueueing_process_brings_nothing_heavy(floor: set[str]) -> None:
    code = "app = rowlock.Rowlock('postgresql://nowhere/x')\n@app.job\ndef add(a: int, b: float = 0.0) -> float: ..."
    assert heavy(loaded(f"import rowlock\n{code}\nadd._handler.codec.encode((1,), {{'b': 2.5}})"), floor) == set()


async def test_a_worker_that_ran_jobs_and_every_duty_brings_nothing_heavy(
    tmp_path: Path, database_url: str, floor: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("looked.py").write_text(LOOKED)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    command = [sys.executable, "-m", "rowlock", "worker", "--app", "looked:app", "--log-level=warning"]
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path)
    try:
        async with Rowlock(database_url) as app:

            @app.job
            async def look(times: int = 1) -> list[str]:
                raise NotImplementedError

            modules = set(await (await look.enqueue(times=2)).wait(timeout=40))
    finally:
        process.terminate()
        assert await in_time(process.wait()) == 0
    assert "rowlock.flow.worker.worker" in modules
    assert heavy(modules, floor) == set()


def test_every_public_name_is_there() -> None:
    assert set(rowlock.__all__) <= set(dir(rowlock))
    assert all(getattr(rowlock, name) is not None for name in rowlock.__all__)
    assert set(rowlock._MODULE_OF) <= set(rowlock.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = rowlock.Nothing  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package() -> None:
    assert rowlock.__version__ == metadata.version("rowlock")
