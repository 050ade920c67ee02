"""Register: a worker's own row, and the lanes and kinds its code brings along."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseUnreachable, SchemaBehind, SchemaMissing
from rowlock.model.lane import DEFAULT_LANE
from rowlock.store import lanes, migrate
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.flow.handler import Handler
    from rowlock.settings import Settings
    from rowlock.store.link import Link

logger = logging.getLogger("rowlock.worker")
BACKOFF: Final = (0.1, 0.5, 1.0, 2.0)


async def until_served(name: str, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step while the database is away or its schema behind; says why the worker of that name waits."""
    said, failures = "", 0
    while True:
        try:
            return await step()
        except (DatabaseUnreachable, SchemaMissing, SchemaBehind, *TRANSIENT) as error:
            if str(error) != said:
                said = str(error)
                logger.warning("worker %s waits: %s", name, error)
            await asyncio.sleep(BACKOFF[min(failures, len(BACKOFF) - 1)])
            failures += 1


class Registration:
    """What one worker writes about itself. lanes None: every lane."""

    def __init__(
        self, link: Link, handlers: Mapping[str, Handler], name: str, *, lanes: Sequence[str] | None, version: str
    ) -> None:
        self._link, self._handlers, self._name = link, handlers, name
        self._lanes, self._version = lanes, version

    async def enter(self, settings: Settings) -> tuple[int, datetime]:
        """Check the schema, prepare lanes and kinds, add the row; returns the worker's id and the database's time."""
        async with self._link.session() as connection:
            await migrate.require(connection, self._link.database.schema)
        await lanes.prepare(self._link, [h.kind for h in self._handlers.values()], settings.lanes or (DEFAULT_LANE,))
        (row,) = await self._link.fetch("register_worker", **self._card())
        if row["namesake"]:
            other = json.loads(row["namesake"])
            logger.warning(
                "another live worker is also called %s (host %s, pid %s, since %s). Both work, each under "
                "an id of its own; "
                "give them different names to tell them apart.",
                self._name,
                *(other[key] for key in ("host", "pid", "since")),
            )
        return row["id"], row["now"]

    async def revive(self, worker_id: int) -> None:
        """Write the row again, under its old id."""
        logger.warning("the row of worker %s was deleted; it is written again", self._name)
        await self._link.fetch("revive_worker", worker=worker_id, **self._card())

    def _card(self) -> dict[str, object]:
        return {
            "name": self._name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": self._version,
            "lanes": None if self._lanes is None else list(self._lanes),
            "kinds": sorted(self._handlers),
        }
