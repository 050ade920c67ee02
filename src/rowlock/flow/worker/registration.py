"""Registration: the worker's row in the database, and the lanes and kinds that its code declares."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseUnreachable, SchemaBehind, SchemaMissing
from rowlock.flow.kinds.handler import kinds_of
from rowlock.model import webhook
from rowlock.model.lane import DEFAULT_LANE
from rowlock.outage_log import OutageLog
from rowlock.store import lanes
from rowlock.store.database import TRANSIENT
from rowlock.store.jobs import workers
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.errors import SchemaAhead
    from rowlock.flow.kinds.handler import Handler
    from rowlock.flow.kinds.import_origin import Origin
    from rowlock.model.lane import Lane
    from rowlock.settings import Settings
    from rowlock.store.connections.worker_connection import WorkerConnection

logger = logging.getLogger("rowlock.worker")
BACKOFF: Final = (0.1, 0.5, 1.0, 2.0)


async def until_served(name: str, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step while the database is away or its schema behind, and log why the worker of that name waits."""
    outage, failures = OutageLog(logger, f"worker {name} waits", f"worker {name} goes on"), 0
    while True:
        try:
            await step()
        except (DatabaseUnreachable, SchemaMissing, SchemaBehind, *TRANSIENT) as error:
            outage.failed(error)
            await asyncio.sleep(BACKOFF[min(failures, len(BACKOFF) - 1)])
            failures += 1
        else:
            outage.recovered()
            return


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker differs from another. lanes None: every lane; slots: this process's own number for a lane."""

    name: str | None = None
    lanes: Sequence[str] | None = None
    slots: Mapping[str, int] | None = None
    version: str = "0"
    claims: bool = True
    """False: runs only the jobs that run_by_id() names."""
    upkeep_only: bool = False
    """True: runs no job; rescues, expires, prunes, fires schedules and delivers for the others."""
    origin: Origin | None = None
    """Where child processes import the application from; None: no job can run in a child process."""
    alone: bool = False
    """True: for single jobs in a test; neither listens nor beats."""
    supervisor: int | None = None
    """The process id of the supervisor, if there is one."""
    carriers: str | None = None
    """JSON: the carriers by kind and by lane; None: PostgreSQL delivers every job."""


def served(rows: Sequence[Lane], options: WorkerOptions, *, first: bool) -> dict[str, Lane]:
    """The lanes that a worker serves, with its own slots. first: at the start an unknown lane is an error."""
    by_name = {lane.name: lane for lane in rows}
    wanted = sorted(by_name) if options.lanes is None else list(options.lanes)
    missing = [name for name in wanted if name not in by_name]
    if missing and first:
        raise lanes.unknown_lane(missing[0], by_name)
    own = options.slots or {}
    return {
        name: replace(by_name[name], slots=own.get(name, by_name[name].slots)) for name in wanted if name in by_name
    }


class Registration:
    """Writes the row of one worker."""

    def __init__(
        self,
        link: WorkerConnection,
        handlers: Mapping[str, Handler],
        name: str,
        options: WorkerOptions,
        isolates: Callable[[Handler], bool],
    ) -> None:
        self._link, self._handlers, self._name, self._options = link, handlers, name, options
        self._isolates, self._made_for = isolates, migrate.newest()

    async def enter(self, settings: Settings) -> tuple[int, datetime]:
        """Check the schema, write lanes and kinds, insert the row; returns the worker's id and the database's time."""
        async with self._link.session() as session:
            await migrate.require(session.connection, self._link.database.schema)
        await lanes.prepare(
            self._link,
            # Deliveries are written down with the first webhook: without webhooks nobody need know of them.
            [kind for kind in kinds_of(self._handlers) if kind.name != webhook.KIND],
            settings.lanes or (DEFAULT_LANE,),
            isolates=lambda kind: self._isolates(self._handlers[kind]),
            secret=lambda kind: self._handlers[kind].codec.secret,
        )
        await lanes.declare_retention(self._link, kinds_of(self._handlers), settings.retention)
        registered = await workers.register(self._link, self._columns())
        if registered.namesake is not None:
            logger.warning(
                "another live worker is also called %s (host %s, pid %s, since %s). Both work, each under "
                "an id of its own; "
                "give them different names to tell them apart.",
                self._name,
                *registered.namesake,
            )
        return registered.id, registered.now

    async def revive(self, worker_id: int) -> None:
        """Write the row again, under its old id."""
        logger.warning("the row of worker %s was deleted; it is written again", self._name)
        await workers.revive(self._link, worker_id, self._columns())

    def outdated(self, since: int) -> SchemaAhead | None:
        """The error of a worker whose code is too old for the tables. since: the oldest version that runs on them."""
        if since <= self._made_for:
            return None
        error = migrate.ahead(self._link.database.schema, since)
        logger.error("worker %s claims nothing more: %s", self._name, error)
        return error

    def _columns(self) -> workers.WorkerRow:
        return {
            "name": self._name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": self._options.version,
            "lanes": self._lanes(),
            "kinds": sorted(self._handlers),
            "slots": None if self._options.slots is None else json.dumps(dict(self._options.slots)),
            "supervisor": self._options.supervisor,
            "carriers": self._options.carriers,
        }

    def _lanes(self) -> list[str] | None:
        """The lanes in the row; None: every lane. A worker that only runs jobs by id serves none."""
        if not self._options.claims:
            return []
        return None if self._options.lanes is None else list(self._options.lanes)
