"""The doctor: examines the database, its settings, the lanes and the workers; changes nothing."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rowlock.desk import doctor_checks
from rowlock.desk.stats import Stats
from rowlock.desk.workers import Workers
from rowlock.errors import DatabaseError, DatabaseUnreachable
from rowlock.model.access import Permission
from rowlock.model.database_url import shown
from rowlock.model.doctor_finding import fail, ok, warn
from rowlock.store.connections import probes
from rowlock.store.queries import quoted
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowlock.model.doctor_finding import Finding
    from rowlock.model.workload import Status
    from rowlock.settings import Settings
    from rowlock.store.database import Database

_PATIENCE: Final = 10.0
"""Seconds for one check."""
_CAP: Final = 1_000
"""Rows a check looks at."""
_OLD: Final = timedelta(minutes=15)
_LONG: Final = timedelta(hours=1)
"""Time without a report, in a lane without progress_timeout."""
_NO_DIRECT: Final = warn(
    "listen",
    "the server at ROWLOCK_DIRECT_URL cannot be reached: workers notice new jobs only when they poll",
    "Correct ROWLOCK_DIRECT_URL, or set ROWLOCK_LISTEN=off.",
)


class Doctor:
    """Examines one database. kinds: the application's, if it is known."""

    def __init__(self, database: Database, settings: Settings, kinds: Sequence[str] | None = None) -> None:
        self._database, self._settings, self._kinds = database, settings, kinds

    async def examine(self) -> list[Finding]:
        """Run every check, each after those it depends on; an unreachable database ends the examination."""
        findings = await self._guarded("database", self._reach)
        if any(finding.verdict == "fail" for finding in findings):
            return findings
        for check, look in (("pooler", self._pooler), ("server", self._server), ("listen", self._listen)):
            findings += await self._guarded(check, look)
        schema = await self._guarded("schema", self._schema)
        findings += schema
        if any(finding.verdict == "fail" for finding in schema):
            return findings
        for check, look in (("vacuum", self._vacuum), ("lanes", self._work), ("jobs", self._jobs)):
            findings += await self._guarded(check, look)
        return findings

    async def _guarded(self, check: str, look: Callable[[], Awaitable[list[Finding]]]) -> list[Finding]:
        """Run one check; if the check itself fails, that is a finding, and the others still run."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await look()
        except TimeoutError:
            return [warn(check, f"gave no answer within {_PATIENCE:g} s", "See what the server is busy with.")]
        except DatabaseUnreachable as error:
            return [_unreachable(check, str(error))]
        except Exception as error:  # noqa: BLE001 - whatever the server says, the other checks are worth their lines
            return [warn(check, f"could not be checked: {error}", "Ask the owner of the database for the permission.")]

    async def _rows(self, name: str, **values: object) -> list[dict[str, Any]]:
        return [dict(row) for row in await self._database.fetch(name, **values)]

    async def _reach(self) -> list[Finding]:
        began = time.monotonic()
        connection = await self._database.connect("doctor")
        try:
            connected = time.monotonic() - began
            version = connection.get_server_version()
        finally:
            connection.terminate()
        return [
            ok("database", f"PostgreSQL {version.major} at {shown(self._database.url)}, connected in {_ms(connected)}")
        ]

    async def _pooler(self) -> list[Finding]:
        return [doctor_checks.pooler(await probes.find_pooler(self._database), self._settings)]

    async def _server(self) -> list[Finding]:
        began, before = datetime.now(UTC), time.monotonic()
        (row,) = await self._rows("doctor_server")
        took = time.monotonic() - before
        workers = await self._live_workers()
        apart = row["now"] - (began + timedelta(seconds=took / 2))
        return [
            doctor_checks.version(row),
            doctor_checks.clock(apart, timedelta(seconds=took)),
            *doctor_checks.durability(row),
            doctor_checks.connections(row, workers),
        ]

    async def _live_workers(self) -> int:
        try:
            workers = await Workers(lambda: self._database).list()
        except DatabaseError:
            return 0  # no tables yet: the schema's own check says so
        return sum(not worker.silent for worker in workers)

    async def _listen(self) -> list[Finding]:
        if not self._settings.listen:
            return [ok("listen", "off (ROWLOCK_LISTEN): workers poll")]
        try:
            seconds = await probes.round_trip(self._database)
        except DatabaseUnreachable:
            if self._settings.direct_url is None:
                raise
            return [_NO_DIRECT]
        if seconds is None:
            return [
                doctor_checks.notify_queue(await self._rows("doctor_notify_queue")),
                warn(
                    "listen",
                    "a message sent with NOTIFY did not come back: workers notice new jobs only when they poll",
                    "Behind a pooler set ROWLOCK_DIRECT_URL to the server itself, or ROWLOCK_LISTEN=off.",
                ),
            ]
        queue = doctor_checks.notify_queue(await self._rows("doctor_notify_queue"))
        return [ok("listen", f"a message comes back in {_ms(seconds)}"), queue]

    async def _schema(self) -> list[Finding]:
        found = await migrate.status(self._database)
        return [doctor_checks.schema(found, self._database.schema)]

    async def _vacuum(self) -> list[Finding]:
        tables = await self._rows("doctor_tables", schema=quoted(self._database.schema))
        (server,) = await self._rows("doctor_server")
        return [
            doctor_checks.vacuum(server, tables),
            doctor_checks.transactions(await self._rows("doctor_transactions", older=_OLD)),
            doctor_checks.slots(await self._rows("doctor_slots")),
        ]

    async def _work(self) -> list[Finding]:
        status: Status = await Workers(lambda: self._database).status()
        backlog = await Stats(lambda: self._database).backlog()
        upkeep = await self._rows("doctor_upkeep")
        return [
            *doctor_checks.workers(status),
            *doctor_checks.set_aside(status),
            *doctor_checks.lanes(status),
            *doctor_checks.kinds(status, backlog, self._kinds),
            doctor_checks.upkeep(upkeep, status),
            *doctor_checks.schedules(await self._rows("doctor_schedules"), status),
        ]

    async def _jobs(self) -> list[Finding]:
        pending = await self._rows("doctor_pending", cap=_CAP, permission=Permission.APPROVE)
        return [
            doctor_checks.oldest(await self._rows("doctor_oldest")),
            doctor_checks.pending([row for row in pending if row["asked"]], _CAP),
            doctor_checks.held([row for row in pending if not row["asked"]], _CAP),
            *doctor_checks.stalls(await self._rows("doctor_stalls", long=_LONG)),
            doctor_checks.quarantined(await self._rows("doctor_quarantined", cap=_CAP)),
            *doctor_checks.failing(await self._failing()),
        ]

    async def _failing(self) -> list[dict[str, Any]]:
        least, share, all_of = doctor_checks.FAILING_LEAST, doctor_checks.FAILING_SHARE, doctor_checks.FAILING_ALL_OF
        return await self._rows("doctor_failing", least=least, share=share, all_of=all_of, cap=_CAP)


def _unreachable(check: str, says: str) -> Finding:
    if "startup parameter" in says:
        return fail(check, says, "A pooler is in front of the server: set ROWLOCK_POOLED=on and ROWLOCK_DIRECT_URL.")
    return fail(check, says, "Start the server, or correct ROWLOCK_DATABASE_URL.")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
