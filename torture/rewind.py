"""A server that forgets what it had acknowledged: its replica lags behind when it is promoted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from torture import ledger
from torture.ledger import Asked
from torture.network import Proxied
from torture.stage import STALE, TROUBLE, eventually

if TYPE_CHECKING:
    from torture.server import Server
    from torture.stage import Stage

DOUBLES: Final = 8
"""Jobs whose ids, and fences with them, are given out twice: before and after."""
THROUGH: Final = 6.0
"""Seconds of their handlers: longer than the failover."""
_SWEEP: Final = 10.0
_WRITTEN: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint"
_RECEIVED: Final = "SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::bigint"


class FailoverAsync(Proxied):
    """The replica stopped receiving a while ago; the server dies, and the replica takes its place all the same.

    What was acknowledged meanwhile is gone, and the server's history goes on from before it: ids and fences that
    workers still hold are given out again, here on purpose to other jobs while their handlers still run.
    """

    name = "failover-async"
    does = "the server dies; its asynchronous replica lags behind and is promoted: ids and fences are given out twice"
    bound = STALE + _SWEEP + THROUGH + 8
    why = "as after an outage; what was finished and is not any more is behind the cursors until a sweep"
    seconds = (3.0, 10.0)

    _standby: Server
    _primary: Server

    @override
    async def set_up(self, stage: Stage) -> None:
        self._primary = stage.server
        self._standby = await asyncio.to_thread(stage.server.replica, f"replica-{time.monotonic_ns()}")
        self._standby.start()
        await eventually(
            lambda: stage.ask("SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'"), "replica", 30
        )
        await super().set_up(stage)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await stage.busy()
        samples: list[tuple[float, int]] = []
        watching = asyncio.create_task(_watched(stage.server, samples))
        await eventually(lambda: _is_sampled(samples), "a sample", 10)
        received = await self._lag()
        ids = await self._long_jobs(stage)
        await asyncio.sleep(seconds)
        watching.cancel()
        for proxy in self.proxies:
            proxy.passable.clear()  # nobody reaches either while the address moves
        stage.server.stop()
        await self._standby.ask("postgres", "SELECT pg_promote(true, 30)")
        stage.server = self._standby
        await self._given_again(stage, ids)
        self.forgotten = max(moment for moment, written in samples if written <= received), time.time()
        for proxy in self.proxies:
            proxy.target = self._standby.port
            proxy.reset_all()
            proxy.passable.set()

    async def _lag(self) -> int:
        """The replica receives nothing more; returns up to where it did."""
        connection = await self._standby.connect()
        try:
            await connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            await connection.execute("SELECT pg_reload_conf()")
            await eventually(
                lambda: connection.fetchval("SELECT NOT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)"), "lag", 20
            )
            return int(await connection.fetchval(_RECEIVED))
        finally:
            await connection.close()

    async def _long_jobs(self, stage: Stage) -> list[int]:
        """Jobs of the lost stretch that are running when it ends."""
        ids = await stage.ask(
            "WITH made AS (INSERT INTO jobs (kind, args)"
            " SELECT 'plain', jsonb_build_object('tag', 'before-' || n, 'seconds', $2::float8)"
            " FROM generate_series(1, $1::int) n RETURNING id) SELECT array_agg(id) FROM made",
            DOUBLES,
            THROUGH,
        )
        await eventually(
            lambda: stage.ask("SELECT bool_and(state = 'running') FROM jobs WHERE id = ANY ($1)", ids), "runs", 30
        )
        return list(ids)

    async def _given_again(self, stage: Stage, ids: list[int]) -> None:
        """As the sequence would sooner or later, but while their namesakes run: the same ids, for other jobs."""
        again = await stage.ask(
            "WITH made AS (INSERT INTO jobs (id, kind, args)"
            " SELECT g.id, 'plain', jsonb_build_object('tag', 'after-' || g.id, 'seconds', $2::float8)"
            " FROM unnest($1::bigint[]) g(id) WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = g.id) RETURNING id)"
            " SELECT count(*) FROM made",
            ids,
            THROUGH,
        )
        await stage.ask("SELECT setval(pg_get_serial_sequence('jobs', 'id'), (SELECT max(id) FROM jobs))")
        stage.notes["ids twice"] = float(again)

    @override
    async def judge(self, stage: Stage) -> list[str]:
        first, last = (moment - time.time() + time.monotonic() for moment in self.forgotten or (0.0, 0.0))
        asked = [entry for entry in ledger.read(stage.ledger) if isinstance(entry, Asked) and first < entry.at <= last]
        stage.notes["forgotten answers"] = float(sum(entry.answer == "acknowledged" for entry in asked))
        return [] if stage.notes["ids twice"] else ["no id was given out twice: the run shows little"]

    @override
    async def tear_down(self, stage: Stage) -> None:
        stage.server = self._primary
        with contextlib.suppress(AttributeError):
            self._standby.stop()
        self._primary.stop(signal.SIGINT)
        self._primary.start()


async def _watched(server: Server, samples: list[tuple[float, int]]) -> None:
    """Note again and again up to where everything was written that is acknowledged by then."""
    with contextlib.suppress(*TROUBLE):
        connection = await server.connect()
        try:
            while True:
                now = time.time()
                samples.append((now, await connection.fetchval(_WRITTEN)))
                await asyncio.sleep(0.01)
        finally:
            connection.terminate()


async def _is_sampled(samples: list[tuple[float, int]]) -> bool:
    return bool(samples)


SCENARIOS = (FailoverAsync,)
