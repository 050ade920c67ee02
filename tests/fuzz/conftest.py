"""An application with a worker on a database of its own, asked by blocking tests: Hypothesis knows no event loops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
import httpx
import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from tests.api.conftest import ADMIN
from tests.fuzz.profile import LONG

from rowlock import Rowlock
from rowlock.api import RowlockAPI
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from rowlock.model.access import Principal

T = TypeVar("T")


class Root:
    async def authenticate(self, _connection: object) -> Principal:
        return ADMIN


class Bench:
    """What a fuzz test needs of Rowlock; run() goes on where the loop stood."""

    def __init__(self, url: str, runner: asyncio.Runner) -> None:
        self.app = Rowlock(url, settings=Settings(shutdown_after=timedelta(seconds=3)))
        self.url, self._runner = url, runner
        self._sql: asyncpg.Connection[asyncpg.Record] | None = None
        self._client: httpx.AsyncClient | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def sql(self, text: str, *values: object) -> Any:  # noqa: ANN401 - whatever the query returns
        """The first value of a query, past Rowlock."""
        if self._sql is None:
            self._sql = await asyncpg.connect(self.url, server_settings={"search_path": "rowlock"})
        return await self._sql.fetchval(text, *values)

    async def jobs(self) -> int:
        return int(await self.sql("SELECT count(*) FROM jobs"))

    async def rest(self, method: str, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        """Ask the REST door; whatever it is asked, it answers, and not with its own failure."""
        if self._client is None:
            transport = httpx.ASGITransport(RowlockAPI(self.app, auth=Root()).asgi, raise_app_exceptions=True)
            self._client = httpx.AsyncClient(transport=transport, base_url="http://door/api/v1")
        return await self._client.request(method, path, **more)

    async def shown(self, job_id: int) -> dict[str, Any]:
        """The job as every door shows it: none may choke on what another let in."""
        job = await self.app.jobs.get(job_id)
        await self.app.jobs.history(job_id)
        await self.app.jobs.explain(job_id)
        await self.app.jobs.logs(job_id)
        await self.app.jobs.items(job_id)
        answer = await self.rest("GET", f"/jobs/{job.public_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def close(self) -> None:
        if self._sql is not None:
            await self._sql.close(timeout=2)
        if self._client is not None:
            await self._client.aclose()
        await self.app.close()


@pytest.fixture(autouse=True)
def _always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis tries constants of the modules that happen to be imported: other ones in every process of a run."""
    if not LONG:
        monkeypatch.setattr(providers, "_get_local_constants", Constants, raising=False)


@pytest.fixture(autouse=True)
def _unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What strange handlers log stays in the database: pytest's own processes cannot pass every text to each other."""
    monkeypatch.setattr(logging.root.manager, "disable", sys.maxsize)


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        made = Bench(database_url, runner)
        yield made
        made.run(made.close())


@contextlib.contextmanager
def working(bench: Bench) -> Iterator[None]:
    """A worker of the bench's application, in a thread of its own."""
    worker = bench.app.start_worker()
    try:
        yield
    finally:
        worker.stop()


def is_clear(error: BaseException) -> bool:
    """Whether a person can read it: a sentence or two, printable, without the innards of a library."""
    text = str(error)
    text.encode()  # a lone surrogate would break the terminal that shows it
    foreign = ("Traceback", "asyncpg", "pydantic_core")
    return 10 < len(text) < 5000 and not any(word in text for word in foreign)
