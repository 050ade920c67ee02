from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.databases import STATISTICS, built_once, fill
from tests.desk.many_jobs import LOAD, TABLES
from tests.factories import Store, opened

from rowlock import Rowlock
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import psycopg


class Desk:
    """An app beside a store driven by hand, on one database."""

    def __init__(self, app: Rowlock, store: Store) -> None:
        self.app, self.store = app, store

    async def codes(self, job_id: int) -> list[str]:
        return (await self.app.jobs.explain(job_id)).codes

    async def lane(self, name: str = "default", *, kinds: tuple[str, ...] = ("*",), **more: object) -> None:
        await self.store.lane(name, kinds=list(kinds), **more)

    async def worker(
        self,
        name: str = "w",
        *,
        lanes: list[str] | None = None,
        kinds: tuple[str, ...] = ("k",),
        slots: dict[str, int] | None = None,
        carriers: dict[str, dict[str, str | None]] | None = None,
    ) -> int:
        """The row of a worker that beat just now."""
        row = await self.store.one(
            "register_worker",
            name=name,
            host="h",
            pid=1,
            version="0",
            lanes=lanes,
            kinds=list(kinds),
            slots=None if slots is None else json.dumps(slots),
            supervisor=None,
            carriers=None if carriers is None else json.dumps(carriers),
        )
        return int(row["id"])


@pytest.fixture
async def make_app(database_url: str) -> AsyncIterator[Callable[..., Rowlock]]:
    """Makes apps on one database, whatever the environment says; keywords are settings."""
    made: list[Rowlock] = []

    def make(**settings: Any) -> Rowlock:  # noqa: ANN401 - the settings' own types
        made.append(Rowlock(database_url, settings=Settings(**{"shutdown_after": timedelta(seconds=3), **settings})))
        return made[-1]

    yield make
    for app in made:
        await app.close()


@pytest.fixture
def app(make_app: Callable[..., Rowlock]) -> Rowlock:
    return make_app()


@pytest.fixture
async def desk(app: Rowlock, database_url: str) -> AsyncIterator[Desk]:
    async with opened(database_url) as store:
        yield Desk(app, store)


@pytest.fixture(scope="session", params=STATISTICS)
def loaded(
    request: pytest.FixtureRequest,
    shared_folder: Path,
    administrator: psycopg.Connection[Any],
    server_url: str,
    template: str,
) -> str:
    """One database of 100,000 jobs for all tests that read it; what they write, they undo."""
    stale = request.param == "stale statistics"
    name = f"desk_{request.param.partition(' ')[0]}"
    return built_once(
        shared_folder,
        administrator,
        server_url,
        name,
        lambda url: fill(url, LOAD, *TABLES, stale=stale),
        template=template,
    )
