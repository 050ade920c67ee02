"""The command line as users start it: a process of its own, in a folder with an application."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.forked import Forks

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

HERE = Path(__file__).parent
TASKS = """
from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from pydantic import SecretStr

from rowlock import Context, Retry, Rowlock

app = Rowlock()
number = 3


@app.job("greet", lane="front")
async def greet(name: str, times: int = 1) -> str:
    return " ".join([f"Hello, {name}!"] * times)


@app.job("explode", retry=Retry(attempts=1))
async def explode() -> None:
    raise ValueError("out of paper")


@app.job("hold")
async def hold(started: Path, release: Path) -> str:
    started.touch()
    while not release.exists():
        await asyncio.sleep(0.01)
    return "released"


@app.job("count")
async def count(ctx: Context, step: Path, total: int = 3) -> int:
    async with ctx.phase("load", total=total) as phase:
        for number in range(1, total + 1):
            while not Path(f"{step}{number}").exists():
                await asyncio.sleep(0.01)
            await phase.advance(message=f"row {number}")
    return total


@app.job("login")
async def login(user: str, password: SecretStr) -> None: ...


@app.job("pay", approval=True)
async def pay(amount: int) -> None: ...
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A command is a process of its own: ten of them in one test take their time on a busy machine."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(240))


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the command printed
        assert self.code == 0, self.err
        return json.loads(self.out)


class Cli:
    """Runs the command line in a folder that holds tasks.py."""

    def __init__(self, folder: Path, database_url: str, forks: Forks) -> None:
        self.folder, self.url, self._forks = folder, database_url, forks
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("ROWLOCK_")}
        self.environment |= {"ROWLOCK_DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"}
        self._started: list[asyncio.subprocess.Process] = []

    async def start(
        self, *arguments: str, stdin: int = asyncio.subprocess.DEVNULL, **environment: str
    ) -> asyncio.subprocess.Process:
        """`python -m rowlock`, to talk to while it runs."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rowlock",
            *arguments,
            cwd=self.folder,
            env=self.environment | environment,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._started.append(process)
        return process

    def kill_what_is_left(self) -> None:
        """End the processes that a failed test has left behind."""
        for process in self._started:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    async def __call__(self, *arguments: str, fed: str | None = None, **environment: str) -> Answer:
        """To its end. fed: what standard input holds."""
        answer = Answer(
            *await asyncio.to_thread(self._forks.run, arguments, self.folder, self.environment | environment, fed)
        )
        assert "Traceback" not in answer.err, answer.err
        return answer

    async def enqueue(self, kind: str, **args: object) -> str:
        """Enqueue a job of tasks.py; its public id."""
        answer = await self("enqueue", kind, "--app", "tasks:app", "--args", json.dumps(args), "--json")
        return str(answer.json["id"])


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with tempfile.TemporaryDirectory(prefix="rowlock-") as folder:  # a socket's path must be short
        made = Forks(Path(folder))
        yield made
        made.close()


@pytest.fixture
def cli(tmp_path: Path, database_url: str, forks: Forks) -> Iterator[Cli]:
    tmp_path.joinpath("tasks.py").write_text(TASKS)
    made = Cli(tmp_path, database_url, forks)
    yield made
    made.kill_what_is_left()


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    """The database behind the command line, without kinds."""
    async with Rowlock(database_url) as rowlock:
        yield rowlock
