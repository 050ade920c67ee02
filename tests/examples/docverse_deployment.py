"""Docverse as it is deployed: web application, arq workers, a Redis and the other services, in separate processes."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
from cryptography.fernet import Fernet
from examples.docverse.stand_in import Answer, Call, StandIn, StandInServer
from psycopg.rows import dict_row
from tests.host_processes import Host, free_port, started
from tests.waiting import PATIENCE, eventually, until
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.delivery.brokers import Redis

ROOT: Final = Path(__file__).parents[2]
LANE: Final = "docverse:kinds=*,slots=20"
SILENT: Final = f"{LANE},heartbeat_timeout=2s"
"""Workers that are silent for two seconds are lost, instead of sixty."""
SECRET: Final = "secret-of-this-test"  # noqa: S105 - of webhooks to this machine
ENDED: Final = ("completed", "completed_with_errors", "failed", "cancelled")


class HeldServices(StandIn):
    """The stand-in; requests whose method and path have a held word wait, those with a broken word fail."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._waiting: list[str] = []
        self._working: collections.Counter[str] = collections.Counter()
        self.broken: set[str] = set()
        self.asked: list[str] = []
        self.overlaps: list[str] = []
        """Places that two requests wrote at the same time: editions at the CDN, and dashboards."""
        self.cdn_seconds = 0.0

    @override
    def __call__(self, call: Call) -> Answer:
        line, place = f"{call.method} {call.path}", _written(call)
        with self._changed:
            self.asked.append(line)
            self._waiting.append(line)
            self._changed.wait_for(lambda: not any(word in line for word in self._held))
            self._waiting.remove(line)
            self._working[place] += 1
            if place and self._working[place] > 1:
                self.overlaps.append(place)
        try:
            if call.path.startswith("/kv/"):
                time.sleep(self.cdn_seconds)
            if any(word in line for word in self.broken):
                return Answer(HTTPStatus.SERVICE_UNAVAILABLE)
            return super().__call__(call)
        finally:
            with self._changed:
                self._working[place] -= 1

    def hold(self, word: str) -> None:
        with self._changed:
            self._held.add(word)

    def let(self, word: str) -> None:
        """Let requests with this word go; other words stay held."""
        with self._changed:
            self._held.discard(word)
            self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    def waiting(self, word: str) -> int:
        with self._changed:
            return sum(word in line for line in self._waiting)

    def text(self, key: str) -> str:
        return self.objects[key][0].decode()


def _written(call: Call) -> str:
    """What one job at a time may write: an edition, or the pages of a project."""
    folder, _, name = call.path.rpartition("/")
    if call.method == "PUT" and name in ("__dashboard.html", "__404.html", "__switcher.json"):
        return f"dashboard of {folder}"
    return call.path if call.method == "PUT" and call.path.startswith("/kv/") else ""


@contextlib.contextmanager
def held_services() -> Iterator[tuple[HeldServices, str]]:
    """The services, and their address."""
    services = HeldServices()
    with StandInServer(0, services) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield services, server.url
        services.release()
        server.shutdown()


@dataclass
class Deployment:
    """The processes of one test."""

    folder: Path
    database_url: str
    services: HeldServices
    services_url: str
    redis: Redis | None
    stack: contextlib.AsyncExitStack
    environ: dict[str, str] = field(default_factory=dict)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    keys: list[str] = field(default_factory=lambda: [Fernet.generate_key().decode()])
    _web: Host | None = None

    def environment(self, **more: str) -> dict[str, str]:
        """Of every program of this deployment."""
        own = {
            "ROWLOCK_DATABASE_URL": self.database_url,
            "ROWLOCK_LANES": f"{LANE},heartbeat_timeout=60s",
            "SERVICES_URL": self.services_url,
            "QUEUE_BACKEND": "inline" if self.redis is None else "arq",
            "REDIS_URL": "" if self.redis is None else self.redis.url,
            "REDELIVER_AFTER": "5s",
            "ARQ_POLL_DELAY": "0.05",
            "RETRY_PAUSE": "0.1s",
            "LOCAL_ORGANIZATIONS": "rubin,kipac",
            "GITHUB_WEBHOOK_SECRET": SECRET,
            "SCHEDULES": "cronjobs",
            "CREDENTIAL_KEYS": ",".join(self.keys),
            "HOME": str(self.folder),
        }
        return {**own, **self.environ, **more}

    async def start(self, workers: int = 1) -> None:
        """Start the web application and so many workers."""
        port = free_port()
        words = ("uvicorn", "examples.docverse.web:host", "--port", str(port), "--no-access-log")
        log = self.folder / "web.log"
        self._web = await self.stack.enter_async_context(
            started(words, port=port, cwd=ROOT, log=log, environ=self.environment(), alive="/openapi.json")
        )
        for _ in range(workers):
            self.start_worker()

    def start_worker(self, **environ: str) -> subprocess.Popen[bytes]:
        """Start one arq worker."""
        with (self.folder / "workers.log").open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "arq", "examples.docverse.tasks.WorkerSettings"],
                cwd=ROOT,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, **self.environment(**environ)},
            )
        self.workers.append(process)
        return process

    def kill(self, *workers: subprocess.Popen[bytes]) -> None:
        """kill -9; without arguments all workers."""
        for process in workers or tuple(self.workers):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.workers.remove(process)

    @property
    def web(self) -> Host:
        assert self._web is not None
        return self._web

    def client(self, groups: str = "rubin,kipac") -> httpx.AsyncClient:
        headers = {"X-Auth-Request-User": "ada", "X-Auth-Request-Groups": groups}
        # With a context of its own httpx reads no certificates, which takes longer than the requests.
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncClient(base_url=self.web.url, headers=headers, timeout=PATIENCE, trust_env=False, verify=own)

    async def project(self, slug: str, org: str = "rubin", **more: Any) -> None:  # noqa: ANN401 - JSON
        async with self.client() as client:
            wanted = {"slug": slug, "repository": f"{org}/{slug}", **more}
            answer = await client.post(f"/orgs/{org}/projects", json=wanted)
        assert answer.status_code == 201, (answer.text, self.web.told())

    async def edition(self, project: str, slug: str, tracked: str) -> None:
        async with self.client() as client:
            path = f"/orgs/rubin/projects/{project}/editions"
            answer = await client.post(path, json={"slug": slug, "tracked": tracked})
        assert answer.status_code == 201, answer.text

    async def build(self, project: str, git_ref: str = "main", *, org: str = "rubin", objects: int = 2) -> str:
        """A build with its objects in the store, of which nothing was said yet."""
        async with self.client() as client:
            path = f"/orgs/{org}/projects/{project}/builds"
            answer = await client.post(path, json={"git_ref": git_ref})
            assert answer.status_code == 201, (answer.text, self.web.told())
            made = answer.json()
            for number in range(objects):
                content = f"{number} of {made['id']}"
                await client.put(f"{made['upload_url']}page-{number}.html", content=content)
        return str(made["id"])

    async def uploaded(self, project: str, build: str, org: str = "rubin") -> str:
        """Say that a build is complete; returns the address of its job."""
        async with self.client() as client:
            path = f"/orgs/{org}/projects/{project}/builds/{build}"
            answer = await client.patch(path, json={"status": "uploaded"})
        assert answer.status_code == 202, (answer.text, self.web.told())
        return str(answer.json()["queue_url"])

    async def processed(self, project: str, git_ref: str = "main", **more: Any) -> str:  # noqa: ANN401 - of build()
        """The id of a build whose job has completed."""
        build = await self.build(project, git_ref, **more)
        await self.becomes(await self.uploaded(project, build), "completed")
        return build

    async def job(self, url: str) -> dict[str, Any]:
        async with self.client() as client:
            answer = await client.get(url)
        assert answer.status_code == 200, (answer.text, self.web.told())
        found: dict[str, Any] = answer.json()
        return found

    async def becomes(self, url: str, *status: str) -> dict[str, Any]:
        """The job, once it has one of these states."""

        async def there() -> dict[str, Any] | None:
            now = await self.job(url)
            if now["status"] in ENDED and now["status"] not in status:
                raise AssertionError(now, self.told())
            return now if now["status"] in status else None

        try:
            found = await eventually(there, within=2 * PATIENCE)
        except AssertionError as error:
            raise AssertionError(error, await self.job(url), self.told()) from None
        assert found is not None
        return found

    async def sql(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Rows of the deployment's database."""
        connecting = psycopg.AsyncConnection.connect(self.database_url, autocommit=True, row_factory=dict_row)
        async with await connecting as connection:
            found = await connection.execute(query.encode(), values or None)
            return await found.fetchall() if found.description else []

    async def enqueue(self, kind: str) -> int:
        """Run `rowlock enqueue` for a kind; the number of its job."""
        await self.rowlock("enqueue", kind)
        return int((await self.sql("SELECT max(id) AS id FROM queue_job WHERE kind = %s", kind))[0]["id"])

    async def ends(self, number: int) -> dict[str, Any]:
        """The row of a job once it has ended."""

        async def ended() -> dict[str, Any] | None:
            (row,) = await self.sql("SELECT * FROM queue_job WHERE id = %s", number)
            return row if row["status"] in ENDED else None

        found = await eventually(ended, within=2 * PATIENCE)
        assert found is not None
        return found

    async def rowlock(self, *words: str, **environ: str) -> str:
        """What a command of Rowlock's own prints."""
        app = ("--app", "examples.docverse.tasks:tasks")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rowlock", *words, *app),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **self.environment(**environ)},
        )
        said, trouble = await process.communicate()
        assert process.returncode == 0, (words, said.decode(), trouble.decode())
        return said.decode()

    async def held(self, word: str, times: int = 1) -> None:
        """Wait until so many requests with that word wait."""
        try:
            await until(lambda: self.services.waiting(word) == times)
        except AssertionError as error:
            raise AssertionError(error, self.services.asked[-20:], self.told()) from None

    def told(self) -> str:
        """The end of what the workers said."""
        log = self.folder / "workers.log"
        return log.read_text(errors="replace")[-3000:] if log.exists() else ""


@contextlib.asynccontextmanager
async def deployed(folder: Path, database_url: str, redis: Redis | None) -> AsyncIterator[Deployment]:
    """A deployment of which nothing runs yet; whatever the block starts is ended with it."""
    with held_services() as (services, url):
        async with contextlib.AsyncExitStack() as stack:
            made = Deployment(folder, database_url, services, url, redis, stack)
            try:
                yield made
            finally:
                services.release()
                made.kill()
