"""examples/adventures with the commands and the environment of docker-compose.test.yml, as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
from examples.adventures.outside import Asked, OutsideServer, Reply, StandIns
from sqlalchemy import make_url
from tests.examples.adventures_compose import compose_file
from tests.host_processes import Host, free_port
from tests.waiting import PATIENCE, eventually

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "adventures"
PROGRAMS: Final = str(Path(sys.executable).parent)
LANE: Final = "adventure_pipeline:kinds=adventures.entry|adventures.entry/on_exhausted|news.digest,slots=4"
SILENT: Final = f"{LANE},heartbeat_timeout=2s"
"""A worker that is silent for two seconds is lost, instead of sixty."""


class HeldServices:
    """The stand-ins. A service that is held answers when it is released; a broken one answers 503."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._waiting: list[Asked] = []
        self._answer = StandIns()
        self.asked: list[Asked] = []
        self.broken: set[str] = set()

    def __call__(self, asked: Asked) -> Reply:
        with self._changed:
            self.asked.append(asked)
            self._waiting.append(asked)
            self._changed.wait_for(lambda: asked.service not in self._held)
            self._waiting.remove(asked)
            if asked.service in self.broken:
                return Reply(HTTPStatus.SERVICE_UNAVAILABLE, b"out of order")
        return self._answer(asked)

    def hold(self, service: str) -> None:
        with self._changed:
            self._held.add(service)

    def release(self) -> None:
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    def waiting(self, service: str) -> int:
        with self._changed:
            return sum(asked.service == service for asked in self._waiting)

    def asked_of(self, service: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.service == service and asked.method == "POST"]


@contextlib.contextmanager
def held_services() -> Iterator[tuple[HeldServices, str]]:
    """The services, and the address of their server."""
    services = HeldServices()
    with OutsideServer(0, services) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield services, server.url
        services.release()
        server.shutdown()


@dataclass
class Reader:
    """A person with a browser, or a program with a token."""

    client: httpx.AsyncClient

    async def begin(self, title: str = "La carta") -> dict[str, Any]:
        answer = await self.client.post("/adventures", json={"title": title})
        assert answer.status_code == HTTPStatus.CREATED, answer.text
        return dict(answer.json())

    async def decide(self, adventure: dict[str, Any], number: int = 0) -> httpx.Response:
        choice = adventure["entries"][-1]["choices"][number]["id"]
        return await self.client.post(f"/adventures/{adventure['id']}/decisions", json={"choice_id": choice})

    async def read(self, adventure_id: str) -> dict[str, Any]:
        answer = await self.client.get(f"/adventures/{adventure_id}")
        assert answer.status_code == HTTPStatus.OK, answer.text
        return dict(answer.json())

    async def entry_becomes(self, adventure_id: str, status: str) -> dict[str, Any]:
        """The adventure, once its last entry has that status."""

        async def there() -> dict[str, Any] | None:
            now = await self.read(adventure_id)
            return now if now["entries"][-1]["status"] == status else None

        found = await eventually(there, within=2 * PATIENCE)
        assert found is not None
        return found


@dataclass
class Deployment:
    """Api and workers on one database, and the services that they ask."""

    folder: Path
    database_url: str
    services: HeldServices
    outside: str
    rowlock: Rowlock
    stack: contextlib.AsyncExitStack
    hosts: dict[str, Host] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        """Instead of the names of containers, addresses of this machine."""
        url = make_url(self.database_url).set(drivername="postgresql+asyncpg")
        return {
            "DATABASE_URL": url.render_as_string(hide_password=False),
            "STORAGE_ENDPOINT_URL": self.outside,
            "ANTHROPIC_URL": self.outside,
            "DEEPL_URL": self.outside,
            "GEMINI_URL": self.outside,
        }

    def start(
        self,
        name: str,
        *,
        file: str = "docker-compose.test.yml",
        as_: str = "",
        cwd: Path = ROOT,
        environ: Mapping[str, str] | None = None,
    ) -> Host:
        """Start a service of the compose file as a process, with another number for its port."""
        said, port, called = compose_file(EXAMPLE / file).services[name], free_port(), as_ or name
        command = str(said.command).replace("--host 0.0.0.0 --port 8000", f"--host 127.0.0.1 --port {port}")
        words = shlex.split(command.replace("$$", "$"))
        words[0] = {"sh": "/bin/sh"}.get(words[0], f"{PROGRAMS}/{words[0]}")
        theirs = {key: value for key, value in os.environ.items() if not key.startswith(("ROWLOCK_", "OTEL_"))}
        own = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1", "HOME": str(self.folder)}
        log, spans = self.folder / f"{called}.log", self.folder / f"{called}.spans"
        given = {"OTEL_SERVICE_NAME": called, "SPANS_FILE": str(spans)}
        with log.open("ab") as output:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env={**theirs, **own, **said.environment, **self.environ, **given, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )
        host = Host(f"http://127.0.0.1:{port}", process, log)
        self.hosts[called] = host
        self.stack.callback(_end, host)
        return host

    async def api(self, **environ: str) -> Host:
        """The API, once it answers: it migrates the database first."""
        host = self.start("api", environ=environ)

        async def healthy() -> bool:
            assert host.process.poll() is None, host.told()
            with contextlib.suppress(httpx.TransportError):
                async with httpx.AsyncClient() as client:
                    return (await client.get(f"{host.url}/healthz")).is_success
            return False

        await eventually(healthy, within=2 * PATIENCE)
        return host

    async def worker(self, as_: str = "worker", *, file: str = "docker-compose.test.yml", **environ: str) -> Host:
        """A worker, once it serves its lane."""
        host = self.start("worker", file=file, as_=as_, environ=environ)
        await says(host, "lane adventure_pipeline (4 slots)")
        return host

    async def reader(self, api: Host) -> Reader:
        """A new guest."""
        client = await self.stack.enter_async_context(httpx.AsyncClient(base_url=api.url, timeout=PATIENCE))
        client.headers["Authorization"] = f"Bearer {(await client.post('/session')).json()['token']}"
        return Reader(client)

    def spans(self) -> list[dict[str, Any]]:
        """The spans that every process has written."""
        return [
            json.loads(line) for file in sorted(self.folder.glob("*.spans")) for line in file.read_text().splitlines()
        ]

    async def asked(self, service: str, times: int = 1) -> None:
        """Wait until so many requests wait for the service's answer."""

        async def waits() -> bool:
            return self.services.waiting(service) == times

        await eventually(waits)

    async def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Look, or interfere, behind the application."""
        async with await psycopg.AsyncConnection.connect(self.database_url, autocommit=True) as connection:
            cursor = await connection.execute(statement.encode(), values)
            return await cursor.fetchall() if cursor.description else []


async def says(host: Host, text: str, times: int = 1) -> None:
    """Wait until the process has written it."""

    async def said() -> bool:
        assert host.process.poll() is None or host.told().count(text) >= times, host.told()
        return host.told().count(text) >= times

    await eventually(said, within=2 * PATIENCE)


def _end(host: Host) -> None:
    if host.process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            host.signal_all(signal.SIGCONT)  # a test may have failed while it was paused
        host.process.terminate()
        try:
            host.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            host.signal_all(signal.SIGKILL)
            host.process.wait()


@contextlib.asynccontextmanager
async def deployed(folder: Path, database_url: str) -> AsyncIterator[Deployment]:
    """Nothing runs yet; what a test starts ends with it."""
    with held_services() as (services, outside):
        async with contextlib.AsyncExitStack() as stack, Rowlock(database_url) as rowlock:
            deployment = Deployment(folder, database_url, services, outside, rowlock, stack)
            stack.callback(services.release)
            yield deployment


async def run_to_end(*words: str, cwd: Path, **environ: str) -> str:
    """What a program of this environment prints; fail unless it ends well."""
    process = await asyncio.create_subprocess_exec(
        *(f"{PROGRAMS}/{words[0]}", *words[1:]),
        cwd=cwd,
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()
