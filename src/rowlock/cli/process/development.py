"""A worker under `rowlock dev`: upgrades the schema, serves the REST API, and reports what runs to its parent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.process.metrics import metrics_of
from rowlock.errors import DatabaseUnreachable, MissingExtra
from rowlock.model.database_url import shown
from rowlock.model.lane import kinds_by_lane
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rowlock.api.server import BackgroundServer
    from rowlock.app import Rowlock
    from rowlock.flow.worker.worker import Worker

logger = logging.getLogger("rowlock.cli")
TOKEN: Final = "ROWLOCK_SERVE_TOKEN"  # noqa: S105 - the name of a variable
"""Passes the token of the REST API from the parent to every worker it starts."""
_AGAIN: Final = 1.0
"""Seconds between two tries to reach the database."""


@contextlib.contextmanager
def quiet(name: str, level: int, *, dev: bool) -> Iterator[None]:
    """Keep a logger to `level`: the start-up block of the parent has what its lines would repeat."""
    spoken = logging.getLogger(name)
    before = spoken.level
    if dev:
        spoken.setLevel(level)
    try:
        yield
    finally:
        spoken.setLevel(before)


def door_of(app: Rowlock, descriptor: int | None) -> BackgroundServer | None:
    """The REST API on a socket that the parent opened; made before the event loop runs, as that takes a second."""
    if descriptor is None:
        return None
    listening = socket.socket(fileno=descriptor)
    # Processes that jobs start must not keep the port.
    listening.set_inheritable(False)
    try:
        from rowlock.api.server import BackgroundServer
    except MissingExtra:
        # The parent prints that it is missing.
        listening.close()
        return None
    # The parent made it, so that a browser stays logged in when the code is loaded again.
    return BackgroundServer(app, listening, metrics_of(app), os.environ.get(TOKEN))


@contextlib.asynccontextmanager
async def opened(door: BackgroundServer | None) -> AsyncIterator[str | None]:
    """Serve the REST API meanwhile; its address."""
    if door is None:
        yield None
        return
    async with door.serving() as url:
        yield url


async def upgraded(worker: Worker) -> None:
    """Bring the schema to the newest version; waits while the database is away, and logs that once."""
    database = worker.database
    said = False
    while True:
        try:
            steps = await migrate.upgrade(database)
        except DatabaseUnreachable as error:
            if not said:
                logger.warning("waits: %s", error)
            said = True
            await asyncio.sleep(_AGAIN)
        else:
            if steps:
                logger.info("schema %s: applied %s", database.schema, ", ".join(map(str, steps)))
            return


async def described(worker: Worker, app: Rowlock) -> dict[str, Any]:
    """Worker, kinds, lanes and database, for the start-up block of the parent."""
    database = worker.database
    async with database.connection() as connection:
        server = connection.get_server_version()
    served = kinds_by_lane(worker.lanes.values(), app.handlers)
    lanes = [
        {"lane": lane.name, "slots": lane.slots, "enabled": lane.enabled, "kinds": list(served[lane.name])}
        for lane in sorted(worker.lanes.values(), key=lambda lane: lane.name)
    ]
    return {
        "worker": worker.name,
        "kinds": sorted(app.handlers),
        "postgresql": server.major,
        "database": None if app.settings.database_url is None else shown(database.url),
        "data_dir": None if app.settings.database_url else _data_dir(app),
        "schema": database.schema,
        "version": migrate.newest(),
        "lanes": lanes,
    }


def _data_dir(app: Rowlock) -> str:
    from rowlock.store.embedded import home

    return str(home.find(Path(app.settings.data_dir)).path)
