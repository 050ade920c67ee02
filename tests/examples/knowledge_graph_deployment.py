"""The knowledge graph in separate processes: its web, its workers, and models whose answers a test holds back."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
from examples.knowledge_graph.models import ModelServer, Question, stand_in
from tests.host_processes import Host, free_port, started
from tests.waiting import PATIENCE, eventually

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROOT: Final = Path(__file__).parents[2]
LANES: Final = "/admin/workers/lanes"
PEOPLE: Final = {
    "ada": ["contributor"],
    "bob": ["contributor"],
    "grace": ["platform_admin"],
    "mona": ["worker_monitor"],
    "otto": ["worker_operator"],
}


class HeldModels:
    """Answer as the stand-in does. A question with a held word waits until the word is released."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self.waiting: list[str] = []
        self.asked: list[str] = []

    def __call__(self, question: Question) -> list[float] | str:
        with self._changed:
            self.asked.append(question.text)
            self.waiting.append(question.text)
            self._changed.wait_for(lambda: not any(word in question.text for word in self._held))
            self.waiting.remove(question.text)
        return stand_in(question)

    def hold(self, *words: str) -> None:
        with self._changed:
            self._held |= set(words)

    def release(self, *words: str) -> None:
        """Let these words go; without words, all."""
        with self._changed:
            self._held -= set(words) or set(self._held)
            self._changed.notify_all()


@contextlib.contextmanager
def held_models() -> Iterator[tuple[HeldModels, str]]:
    """Models, and the address of their server."""
    models = HeldModels()
    with ModelServer(0, models) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield models, server.url
        models.release()
        server.shutdown()


@dataclass
class Worker:
    """A `rowlock worker` in a process group of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def signal_all(self, how: int) -> None:
        os.killpg(self.process.pid, how)


@dataclass
class Deployment:
    """Web and workers on one database that the application's migration has made."""

    folder: Path
    database_url: str
    models: HeldModels
    models_url: str
    rowlock: Rowlock
    stack: contextlib.AsyncExitStack
    web: Host | None = None
    workers: dict[str, Worker] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        return {"ROWLOCK_DATABASE_URL": self.database_url, "MODELS_URL": self.models_url, "HOME": str(self.folder)}

    async def start_web(self, name: str = "web") -> Host:
        port = free_port()
        words = ("uvicorn", "examples.knowledge_graph.web:host", "--port", str(port))
        log = self.folder / f"{name}.log"
        host = started(words, port=port, cwd=ROOT, log=log, environ=self.environ, alive="/openapi.json")
        self.web = await self.stack.enter_async_context(host)
        return self.web

    async def start_worker(self, name: str = "worker-1", *words: str, **environ: str) -> Worker:
        """Start a worker and wait until it claims. words: further options."""
        log = self.folder / f"{name}.log"
        before = len(await self._live())
        app = ("--app", "examples.knowledge_graph.kinds:tasks", "--name", name)
        with log.open("wb") as said:
            process = subprocess.Popen(  # noqa: ASYNC220 - a moment
                [sys.executable, "-m", "rowlock", "worker", *app, *words],
                cwd=ROOT,
                env={**os.environ, **self.environ, **environ},
                stdout=said,
                stderr=said,
                process_group=0,
            )
        worker = self.workers[name] = Worker(process, log)
        self.stack.callback(_end, worker)

        async def claims() -> bool:
            assert process.poll() is None, log.read_text()
            return len(await self._live()) > before

        await eventually(claims, within=2 * PATIENCE)
        return worker

    async def _live(self) -> list[str]:
        return [each.name for each in await self.rowlock.workers.list() if each.state == "up"]

    def client(self, who: str | None = "ada", **headers: str) -> httpx.AsyncClient:
        assert self.web is not None
        key = {} if who is None else {"Authorization": f"Bearer key-of-{who}"}
        return httpx.AsyncClient(base_url=self.web.url, headers=key | headers, timeout=PATIENCE)

    async def ask(self, who: str | None, method: str, path: str, body: object = None) -> httpx.Response:
        async with self.client(who) as client:
            return await client.request(method, path, json=body)

    async def add(self, *chunks: str, who: str = "ada", approve: bool = True) -> str:
        """The job that reads a new document, approved unless the test wants to do that."""
        answer = await self.ask(who, "POST", "/documents", {"title": chunks[0], "text": "\n\n".join(chunks)})
        assert answer.status_code == 202, answer.text
        job = str(answer.json()["job_id"])
        if approve:
            assert (await self.ask(who, "POST", f"/jobs/{job}/approve")).status_code == 200
        return job

    async def start(self, kind: str, **args: object) -> str:
        """A job of any other kind, started by grace."""
        answer = await self.ask("grace", "POST", f"/work/{kind}", args)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    async def job(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.ask("grace", "GET", f"/jobs/{job}")).json()
        return found

    async def becomes(self, job: str, state: str) -> dict[str, Any]:
        """What the API says of the job once it is in that state."""

        async def there() -> dict[str, Any] | None:
            now = await self.job(job)
            assert now["state"] in (state, "pending", "queued", "running"), now
            return now if now["state"] == state else None

        found = await eventually(there, within=2 * PATIENCE)
        assert found is not None
        return found

    async def reaches(self, job: str, done: int) -> dict[str, Any]:
        """The running job once its progress counts so far."""

        async def there() -> dict[str, Any] | None:
            now = await self.job(job)
            return now if ((now["progress"] or {}).get("done") or 0) >= done else None

        found = await eventually(there, within=2 * PATIENCE)
        assert found is not None
        return found

    async def models_wait(self, times: int) -> None:
        """Wait until so many questions have no answer yet."""

        async def there() -> bool:
            return len(self.models.waiting) == times

        await eventually(there, within=2 * PATIENCE)

    async def lanes(self) -> dict[str, dict[str, Any]]:
        """The lanes as the list of the API has them."""
        answer = await self.ask("grace", "GET", LANES)
        return {lane["name"]: lane for lane in answer.json()["items"]}

    async def set_lane(self, name: str, **change: object) -> dict[str, Any]:
        """A plain PATCH in the design's own names."""
        answer = await self.ask("grace", "PATCH", f"{LANES}/{name}", change)
        assert answer.status_code == 200, answer.text
        changed: dict[str, Any] = answer.json()
        return changed

    async def rows(self, query: str) -> list[Any]:
        async with await psycopg.AsyncConnection.connect(self.database_url, autocommit=True) as connection:
            return await (await connection.execute(query.encode())).fetchall()


def _end(worker: Worker) -> None:
    """End what is left of a worker; its child processes end with it."""
    with contextlib.suppress(ProcessLookupError):
        worker.signal_all(signal.SIGCONT)
        worker.signal_all(signal.SIGKILL)
    worker.process.wait(timeout=PATIENCE)


async def migrated(database_url: str, revision: str = "head", **environ: str) -> None:
    """Run the application's migration in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.knowledge_graph.migrate", revision),
        cwd=ROOT,
        env={**os.environ, "ROWLOCK_DATABASE_URL": database_url, **environ},
    )
    assert await process.wait() == 0


@contextlib.asynccontextmanager
async def deployed(folder: Path, database_url: str) -> AsyncIterator[Deployment]:
    """A migrated database with its people; programs are started by the test."""
    await migrated(database_url)
    with held_models() as (models, url):
        async with contextlib.AsyncExitStack() as stack, Rowlock(database_url) as rowlock:
            async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
                for name, roles in PEOPLE.items():
                    key = hashlib.sha256(f"key-of-{name}".encode()).hexdigest()
                    await connection.execute("INSERT INTO kg.people VALUES (%s, %s, %s)", [name, key, roles])
            yield Deployment(folder, database_url, models, url, rowlock, stack)
            models.release()
