"""Nemeses of single rows, and of the queue of notifications: most jobs are well, and must not wait for the others."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from typing import TYPE_CHECKING, Final

import asyncpg
from typing_extensions import override

from torture.scenario import Scenario
from torture.stage import POLL, Failed, eventually

if TYPE_CHECKING:
    from datetime import datetime

    from torture.stage import Stage

NEIGHBOURS: Final = 5.0
"""Seconds that a short job beside the fault may take from its enqueue to its end, on a busy machine."""
_LONGEST: Final = """
SELECT coalesce(max(extract(epoch FROM coalesce(j.finished_at, clock_timestamp()) - j.created_at)), 0)::float8
FROM jobs j
WHERE j.kind IN ('plain', 'once', 'joined', 'thread') AND j.args ->> 'seconds' IS NULL AND j.created_at > $1
  AND NOT j.id = ANY ($2::bigint[])
"""
_EACH: Final = 20
"""One of so many rows is refused."""
_REFUSES: Final = f"""
CREATE FUNCTION public.picky() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.id % {_EACH} = 0 THEN RAISE EXCEPTION 'not this one'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER picky BEFORE UPDATE ON rowlock.jobs FOR EACH ROW
WHEN (NEW.kind IN ('plain', 'thread', 'flaky', 'gated', 'step', 'joined')) EXECUTE FUNCTION public.picky()
"""
_QUEUE_PAGES: Final = 64
"""The shortest queue of notifications that a server can be given, since PostgreSQL 17."""
_QUEUE_SINCE: Final = 170_000
_FULL: Final = 0.9


class _Neighbours(Scenario):
    """Measures how long other jobs take while the fault lasts."""

    async def begun(self, stage: Stage) -> None:
        """The fault begins now."""
        self._since: datetime = await stage.ask("SELECT clock_timestamp()")

    async def over(self, stage: Stage, *spared: int) -> None:
        """The fault is about to end. spared: the jobs that it has hit."""
        longest = await stage.ask(_LONGEST, self._since, list(spared))
        stage.notes["longest wait of a neighbour"] = round(longest, 1)

    @override
    async def judge(self, stage: Stage) -> list[str]:
        longest = stage.notes["longest wait of a neighbour"]
        return [f"a job beside the fault took {longest} s, more than {NEIGHBOURS}"] if longest > NEIGHBOURS else []


class HeldRow(_Neighbours):
    """A transaction of another program holds rows of running and waiting jobs."""

    name = "held-row"
    does = "rows of running and queued jobs held by another transaction (`FOR UPDATE`)"
    bound = 8.0
    why = "outcomes that were set aside are tried again every two seconds"
    seconds = (30.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        connection = await stage.server.connect(stage.database)
        try:
            await stage.busy()
            waiting = await connection.fetchval(
                "INSERT INTO rowlock.jobs (kind, args, run_after)"
                " VALUES ('plain', '{\"tag\": \"held\"}', clock_timestamp() + interval '2 s') RETURNING id"
            )
            async with connection.transaction():
                rows = await connection.fetch(
                    "SELECT j.id FROM rowlock.jobs j WHERE j.id = $1 OR (j.state = 'running' AND j.kind = 'plain')"
                    " ORDER BY j.id LIMIT 4 FOR UPDATE SKIP LOCKED",
                    waiting,
                )
                held = [row["id"] for row in rows]
                await self.begun(stage)
                await asyncio.sleep(seconds)
                await self.over(stage, *held, waiting)
        finally:
            await connection.close()
        stage.notes["held"] = float(len(held))


class RefusedRow(_Neighbours):
    """A trigger of the database's owner refuses one row in twenty, whatever is done with it."""

    name = "refused-row"
    does = f"a trigger refuses every change of one row in {_EACH}"
    bound = 20.0
    why = "a claim, an outcome or a release that was refused is tried again after pauses of up to ten seconds"
    seconds = (10.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await self.begun(stage)
        await self._run(stage, _REFUSES)
        await asyncio.sleep(seconds)
        refused: list[int] = await stage.ask(
            f"SELECT coalesce(array_agg(id), '{{}}') FROM jobs WHERE id % {_EACH} = 0 AND created_at > $1",
            self._since,
        )
        await self.over(stage, *refused)
        await self._run(stage, "DROP TRIGGER picky ON rowlock.jobs")
        stage.notes["rows refused"] = float(len(refused))

    @staticmethod
    async def _run(stage: Stage, sql: str) -> None:
        connection = await stage.server.connect(stage.database)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


class QueueFull(_Neighbours):
    """A listener of another database, idle in a transaction, lets the server's queue of notifications fill up."""

    name = "queue-full"
    does = "the server's queue of notifications is full: a listener elsewhere is idle in a transaction"
    bound = POLL + 4
    why = "nobody can be woken, so jobs are found by polling"
    seconds = (10.0, 60.0)

    @override
    async def set_up(self, stage: Stage) -> None:
        if int(await stage.ask("SELECT current_setting('server_version_num')::integer")) < _QUEUE_SINCE:
            raise Failed("the length of the queue can be set on PostgreSQL 17 and later: --server embedded")
        stage.server.stop(signal.SIGINT)
        stage.server.start(None, max_notify_queue_pages=str(_QUEUE_PAGES))
        await eventually(lambda: stage.ask("SELECT true"), "the server with a short queue", 30)
        await super().set_up(stage)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        listener, sender = await stage.server.connect(), await stage.server.connect()
        try:
            await listener.execute("LISTEN elsewhere")
            async with listener.transaction():
                await listener.fetchval("SELECT 1")
                await self._fill(sender)
                await self.begun(stage)
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    await self._fill(sender)
                    await asyncio.sleep(0.2)
                stage.notes["queue"] = round(await sender.fetchval("SELECT pg_notification_queue_usage()"), 2)
                await self.over(stage)
        finally:
            await listener.close()
            await sender.close()

    @staticmethod
    async def _fill(sender: asyncpg.Connection[asyncpg.Record]) -> None:
        with contextlib.suppress(asyncpg.ProgramLimitExceededError):
            while await sender.fetchval("SELECT pg_notification_queue_usage()") < _FULL:
                await sender.execute(f"NOTIFY elsewhere, '{'x' * 7900}'")

    @override
    async def tear_down(self, stage: Stage) -> None:
        stage.server.stop(signal.SIGINT)
        stage.server.start()


SCENARIOS = (HeldRow, RefusedRow, QueueFull)
