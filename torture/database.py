"""Nemeses of the database server and of the connections to it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from torture.scenario import Scenario
from torture.stage import POLL, STALE, TROUBLE, eventually

if TYPE_CHECKING:
    import asyncpg

    from torture.proxy import Proxy
    from torture.stage import Stage


class Restart(Scenario):
    """The server stops without a farewell, recovers, and does so again."""

    name = "restart"
    does = "PostgreSQL stopped at once (`-m immediate`) again and again, about 1 s away each time"
    bound = STALE + 8
    why = "reconnect within 2 s; a full heartbeat timeout before anyone is called lost"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until, times = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            await stage.busy()
            stage.server.stop()
            await asyncio.sleep(stage.random.uniform(0.5, 1.5))
            stage.server.start()
            times += 1
            if time.monotonic() < until:
                await asyncio.sleep(stage.random.uniform(1, 3))
        stage.notes["stopped"] = float(times)


class Terminate(Scenario):
    """Backends die, ten a second."""

    name = "terminate"
    does = "10 backends a second ended with `pg_terminate_backend`"
    bound = 5.0
    why = "reconnect within 2 s; forgotten claims are disowned with the next beats"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until, ended = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            ended += await stage.ask(
                "SELECT count(pg_terminate_backend(x.pids[1 + floor($1::float8 * cardinality(x.pids))::integer]))"
                " FROM (SELECT array_agg(pid ORDER BY backend_start) AS pids FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name <> 'harness') x",
                stage.random.random(),
            )
            await asyncio.sleep(0.1)
        stage.notes["ended"] = float(ended)


class Deaf(Scenario):
    """Only LISTEN is lost: nobody is woken, so everybody must look."""

    name = "deaf"
    does = "only the LISTEN connections killed, and cut off when they come back"
    bound = POLL + 2
    why = "the lane's poll interval"

    @override
    async def set_up(self, stage: Stage) -> None:
        """What listens goes through a proxy, the rest does not."""
        self._proxy = await stage.proxy()
        stage.environment["ROWLOCK_DIRECT_URL"] = stage.server.at(stage.database, self._proxy.port)
        await super().set_up(stage)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        self._proxy.passable.clear()
        stage.notes["ended"] = float(await stage.terminate("rowlock:listen"))
        await asyncio.sleep(seconds / 2)
        await self._ask_in_silence(stage, max(3, int(seconds / 2)))
        self._proxy.passable.set()

    async def _ask_in_silence(self, stage: Stage, times: int) -> None:
        """Nothing else happens, so nothing but a poll can find these jobs."""
        producers = [process for process in stage.processes if process.name.startswith("producer")]
        for producer in producers:
            producer.signal(signal.SIGSTOP)
        await stage.quiet_schedules()
        await stage.final(30)
        waits = []
        for number in range(times):
            await asyncio.sleep(POLL)  # by then they sleep for as long as they ever do
            began = time.monotonic()
            job = await stage.ask(
                "INSERT INTO jobs (kind, args) VALUES ('plain', jsonb_build_object('tag', $1::text)) RETURNING id",
                f"silence-{number}",
            )
            await eventually(
                partial(stage.ask, "SELECT claimed_at IS NOT NULL FROM jobs WHERE id = $1", job), "a poll", 60
            )
            waits.append(time.monotonic() - began)
        stage.notes["longest wait"] = round(max(waits), 2)
        for producer in producers:
            producer.signal(signal.SIGCONT)

    @override
    async def judge(self, stage: Stage) -> list[str]:
        waited = stage.notes["longest wait"]
        return [f"a job waited {waited:.1f} s while nobody listened"] if waited > POLL + 2 else []

    _proxy: Proxy


class Exhausted(Scenario):
    """Others take every connection there is."""

    name = "exhausted"
    does = "every connection of the server taken by others, workers' own ended"
    bound = STALE + 8
    why = "reconnect within 2 s, then as after an outage"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        held: list[asyncpg.Connection[asyncpg.Record]] = []
        until = time.monotonic() + seconds
        await stage.ask("SELECT 1")
        try:
            while time.monotonic() < until:
                with contextlib.suppress(*TROUBLE):
                    await stage.terminate("rowlock:%")
                with contextlib.suppress(*TROUBLE):
                    while True:
                        held.append(await stage.server.connect())
                await asyncio.sleep(0.3)
            stage.notes["connections"] = float(len(held))
        finally:
            for connection in held:
                connection.terminate()


class Pinned(Scenario):
    """A forgotten transaction keeps vacuum from cleaning up."""

    name = "pinned"
    does = "a transaction left open (xmin pinned) and a reader of everything"
    bound = 3.0
    why = "nothing depends on vacuum"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        connection = await stage.server.connect(stage.database)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    await connection.fetchval("SELECT count(*) FROM rowlock.jobs")
                    await asyncio.sleep(0.5)
        finally:
            await connection.close()


class Locked(Scenario):
    """A careless migration: the table of jobs is locked, for longer than the heartbeat timeout, again and again."""

    name = "locked"
    does = "another session holds the table of jobs (`ACCESS EXCLUSIVE`), for 5 s at a time"
    bound = STALE + 8
    why = "as after an outage"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        connection = await stage.server.connect(stage.database)
        until, times = time.monotonic() + seconds, 0
        try:
            while time.monotonic() < until:
                await stage.busy()
                async with connection.transaction():
                    await connection.execute("LOCK TABLE rowlock.jobs IN ACCESS EXCLUSIVE MODE")
                    await asyncio.sleep(STALE + 2)
                times += 1
        finally:
            await connection.close()
        stage.notes["locked"] = float(times)


class ReadOnly(Scenario):
    """A failover's first minutes: the server answers and refuses every write."""

    name = "read-only"
    does = "the database answers but refuses writes (`default_transaction_read_only`)"
    bound = STALE + 8
    why = "reconnect within 2 s, then as after an outage"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await self._turn(stage, "on")
        await asyncio.sleep(seconds)
        await self._turn(stage, "off")

    async def _turn(self, stage: Stage, value: str) -> None:
        """For new sessions; the old ones are ended, as a failover does."""
        connection = await stage.server.connect()
        try:
            await connection.execute(f'ALTER DATABASE "{stage.database}" SET default_transaction_read_only = {value}')
        finally:
            await connection.close()
        await stage.terminate("%")


SCENARIOS = (Restart, Terminate, Deaf, Exhausted, Pinned, Locked, ReadOnly)
