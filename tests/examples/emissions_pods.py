"""Pods of examples/emissions on one database, the registry that they ask, and what the database says of their jobs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from examples.emissions.registry import Records, RegistryServer, stand_in
from psycopg.rows import dict_row
from tests.host_processes import Host, free_port, started
from tests.waiting import PATIENCE, eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROOT: Final = Path(__file__).parents[2]
STEPS: Final = ("emissions.ingest_csv", "emissions.sync_factors", "emissions.sync_units", "emissions.recalculate")
HEADER: Final = "date,site,activity,quantity,unit"
GAPS: Final = """
SELECT 1000 * extract(epoch FROM next.claimed_at - before.finished_at)::float8
FROM rowlock.edges e
JOIN rowlock.jobs before ON before.id = e.upstream JOIN rowlock.jobs next ON next.id = e.downstream
"""
"""Milliseconds from the end of each step to the claim of the next one, by the database's clock."""


class HeldRegistry:
    """Publishes what the stand-in does. A publication that is held waits until it is released."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._waiting: list[str] = []
        self.factors: Records = stand_in("factors")

    def __call__(self, name: str) -> Records:
        with self._changed:
            self._waiting.append(name)
            self._changed.wait_for(lambda: name not in self._held)
            self._waiting.remove(name)
        return self.factors if name == "factors" else stand_in(name)

    def hold(self, name: str) -> None:
        with self._changed:
            self._held.add(name)

    def release(self) -> None:
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    async def asked(self, name: str, times: int = 1) -> None:
        """Wait until so many requests for a held publication wait."""
        await until(lambda: self._waiting.count(name) == times)


@contextlib.contextmanager
def held_registry() -> Iterator[tuple[HeldRegistry, str]]:
    """A registry, and the address of its server."""
    registry = HeldRegistry()
    with RegistryServer(0, registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield registry, server.url
        registry.release()
        server.shutdown()


def rows(*lines: str) -> str:
    """A CSV file with these lines."""
    return "\n".join((HEADER, *lines)) + "\n"


@dataclass
class Deployment:
    """Pods on one database."""

    folder: Path
    database_url: str
    registry: HeldRegistry
    registry_url: str
    stack: contextlib.AsyncExitStack
    pods: dict[str, Host] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        """What every process of the application needs."""
        return {
            "ROWLOCK_DATABASE_URL": self.database_url,
            "REGISTRY_URL": self.registry_url,
            "CALCULATE_IN": "thread",
            "PYTHONPATH": str(ROOT),
        }

    async def start(
        self, *names: str, factory: str = "examples.emissions.web:create_app", **environ: str
    ) -> list[Host]:
        """Start pods side by side, each a uvicorn with one process."""
        found = await asyncio.gather(*(self._start(name, factory, environ) for name in names))
        self.pods.update(zip(names, found, strict=True))
        return found

    async def _start(self, name: str, factory: str, environ: dict[str, str]) -> Host:
        port = free_port()
        words = ("uvicorn", "--factory", "--host", "127.0.0.1", "--port", str(port), "--no-access-log", factory)
        own = self.environ | {"POD_NAME": name} | environ
        log = self.folder / f"{name}.log"
        alive = "/organisations/acme/totals"
        return await self.stack.enter_async_context(
            started(words, port=port, cwd=ROOT, log=log, environ=own, alive=alive)
        )

    async def upload(self, pod: Host, content: str, *, to: str = "acme", file: str = "data.csv") -> str:
        """The id of a new run."""
        async with pod.client() as client:
            answer = await client.post(f"/organisations/{to}/uploads", files={"file": (file, content)})
        assert answer.status_code == 202, (answer.text, pod.told())
        assert answer.json()["what"] == "created"
        return str(answer.json()["run"])

    async def ask(self, pod: Host, path: str) -> Any:  # noqa: ANN401 - JSON
        async with pod.client() as client:
            answer = await client.get(path)
        assert answer.status_code == 200, (answer.text, pod.told())
        return answer.json()

    async def ended(self, pod: Host, run: str) -> dict[str, Any]:
        """What the pod says of a run once it is over."""

        async def over() -> dict[str, Any] | None:
            now: dict[str, Any] = await self.ask(pod, f"/runs/{run}")
            return now if now["state"] not in ("running", "compensating") else None

        found = await eventually(over, within=2 * PATIENCE)
        assert found is not None
        return found

    async def tonnes(self, pod: Host, organisation: str = "acme") -> dict[tuple[int, int], float]:
        """Totals by year and scope."""
        found = await self.ask(pod, f"/organisations/{organisation}/totals")
        return {(each["year"], each["scope"]): each["tonnes_co2e"] for each in found}

    async def sql(self, query: str, *params: object) -> list[dict[str, Any]]:
        async with await psycopg.AsyncConnection.connect(
            self.database_url, autocommit=True, row_factory=dict_row
        ) as connection:
            cursor = await connection.execute(query, params)
            return await cursor.fetchall() if cursor.description else []

    async def gaps(self) -> list[float]:
        """Milliseconds from step to step, sorted."""
        return sorted(next(iter(row.values())) for row in await self.sql(GAPS))


@contextlib.asynccontextmanager
async def deployed(folder: Path, database_url: str) -> AsyncIterator[Deployment]:
    """A deployment without pods; those that the block starts end with it."""
    with held_registry() as (registry, url):
        async with contextlib.AsyncExitStack() as stack:
            yield Deployment(folder, database_url, registry, url, stack)
            registry.release()


def percentile(values: list[float], share: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(share * len(values)))]
