"""Nemeses of a real network: workers, producer and server are hosts of their own, each with an address and a TCP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from random import Random
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from torture import wire
from torture.scenario import Scenario
from torture.stage import STALE
from torture.wire import NETWORK, Weather, Wire

if TYPE_CHECKING:
    from pathlib import Path

    from torture.stage import Stage
    from torture.wire import Host

SUSPECTS: Final = 15.0
"""Seconds in which the jobs of a lost worker, alone in a child one by one, are done."""
STORM: Final = Weather(lost=0.25, late=0.25, twice=0.02, by=0.05)
_RULE: Final = f"host all all {NETWORK} scram-sha-256\n"


class Hosts(Scenario):
    """Two workers, a producer and PostgreSQL, each on a host of its own; only the harness goes past the wire."""

    wire: Wire
    server: Host
    workers: list[Host]
    producer: Host

    @override
    def lacks(self) -> str:
        return super().lacks() or wire.lacking()

    @override
    async def set_up(self, stage: Stage) -> None:
        self._undo = contextlib.ExitStack()
        self.wire = self._undo.enter_context(Wire(Random(7)))  # noqa: S311 - which packets, not secrets
        self.server, self.producer, *self.workers = [self.wire.host() for _ in range(4)]
        self._move(stage)
        password, port = stage.server.password, stage.server.port
        url = f"postgresql://rowlock:{password}@{self.server.address}:{port}/{stage.database}"
        for host in self.workers:
            with host.inside():
                stage.worker(ROWLOCK_DATABASE_URL=url)
        await stage.up(2)
        with self.producer.inside():
            stage.producer(self.rate, ROWLOCK_DATABASE_URL=url)

    def _move(self, stage: Stage) -> None:
        """Start the server again on its host; the harness reaches it by a socket of the file system."""
        server = stage.server
        sockets = tempfile.mkdtemp(prefix="rowlock-wire-")
        self._undo.callback(shutil.rmtree, sockets, ignore_errors=True)
        owner = (server.folder / "data").stat()
        os.chown(sockets, owner.st_uid, owner.st_gid)
        rules = server.folder / "data" / "pg_hba.conf"
        self._undo.callback(server.start)
        self._undo.callback(_write, rules, rules.read_text())
        self._undo.callback(setattr, server, "url", server.url)
        self._undo.callback(server.stop, signal.SIGINT)
        server.stop(signal.SIGINT)
        _write(rules, rules.read_text() + _RULE)
        with self.server.inside():
            server.start(listen_addresses=f"127.0.0.1,{self.server.address}", unix_socket_directories=sockets)
        server.url = f"postgresql://rowlock:{server.password}@/rowlock?host={sockets}&port={server.port}"

    @override
    async def tear_down(self, stage: Stage) -> None:
        del stage
        self._undo.close()

    def note(self, stage: Stage) -> None:
        """What the wire did, for the table."""
        stage.notes |= {"packets": float(self.wire.carried), "lost packets": float(self.wire.lost)}

    @override
    async def judge(self, stage: Stage) -> list[str]:
        self.note(stage)
        return [] if self.wire.lost else ["no packet was lost: the run shows nothing"]

    _undo: contextlib.ExitStack = contextlib.ExitStack()


class HostsPartition(Hosts):
    """A host without a network for longer than the heartbeat timeout, and then with one."""

    name = "hosts-partition"
    does = "the host of one worker cut off both ways until its jobs are taken over, then healed (network namespaces)"
    bound = SUSPECTS
    why = "its jobs are taken over meanwhile and run alone in a child; what it writes when it is back is refused"
    seconds = (2 * STALE + 3, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await stage.busy(stage.workers[0])
        self.wire.cut(self.workers[0], self.server)
        await asyncio.sleep(seconds)
        self.wire.heal()

    @override
    async def judge(self, stage: Stage) -> list[str]:
        taken = await stage.ask("SELECT count(*) FROM job_attempts WHERE outcome = 'lost'")
        return await super().judge(stage) + ([] if taken else ["no job was taken over: the run shows nothing"])


class OneWay(Hosts):
    """First the answers get lost, then the questions."""

    name = "one-way"
    does = "one worker's packets arrive and no answer does; then, for as long, its packets do not and answers would"
    bound = SUSPECTS + STALE
    why = "as when it is cut off both ways; claims whose answer was lost are taken over like the others"
    seconds = (4 * STALE + 6, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        host = self.workers[0]
        for cut in ((self.server, host), (host, self.server)):
            await stage.busy(stage.workers[0])
            self.wire.cuts = frozenset({cut})
            await asyncio.sleep(seconds / 2)
            self.wire.heal()


class PacketLoss(Hosts):
    """A bad network: it loses, delays, reorders and repeats packets of everybody."""

    name = "packet-loss"
    does = "a quarter of all packets lost, a quarter up to 50 ms late and so out of order, some twice"
    bound = SUSPECTS + STALE
    why = "TCP repeats them; a beat that takes too long makes a worker lost, and its jobs run alone in a child"
    seconds = (12.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await stage.busy()
        self.wire.weather = STORM
        await asyncio.sleep(seconds)
        self.wire.heal()


class LinkFlap(Hosts):
    """A loose plug: links go down and come up again, each second."""

    name = "link-flap"
    does = "the links of all workers and of the producer down for a second, up for a second, in turn"
    bound = SUSPECTS + STALE
    why = "as with lost packets; connections outlive it, or come back within 2 s"
    seconds = (12.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await stage.busy()
        until, times = time.monotonic() + seconds, 0
        ends, middle = [self.workers[0], self.producer], [self.workers[1]]
        try:
            while time.monotonic() < until:
                for down, up in ((ends, middle), (middle, ends)):
                    self._turn(down, up)
                    await asyncio.sleep(1)
                    times += len(down)
        finally:
            self._turn([], [*self.workers, self.producer])
        stage.notes["flaps"] = float(times)

    @staticmethod
    def _turn(down: list[Host], up: list[Host]) -> None:
        for host in down:
            host.link("down")
        for host in up:
            host.link("up")

    @override
    async def judge(self, stage: Stage) -> list[str]:
        self.note(stage)
        return []


class NetworkGone(Hosts):
    """Nobody reaches the server for so long that it gives the connections up, which their clients learn later."""

    name = "network-gone"
    does = "no packet between the server and anybody for longer than both keep such a connection (25 s), then healed"
    bound = STALE + 12
    why = "as after an outage; TCP tries again up to 7 s after the end of it"
    seconds = (30.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await stage.busy()
        for host in (*self.workers, self.producer):
            self.wire.cut(host, self.server)
        await asyncio.sleep(seconds)
        # The producer's own connection, in whose transactions it enqueues, has the limits that the server gives it.
        rowlocks = "client_addr IS NOT NULL AND application_name LIKE 'rowlock:%'"
        left = await stage.ask(f"SELECT count(*) FROM pg_stat_activity WHERE {rowlocks}")
        stage.notes["connections left"] = float(left)
        self.wire.heal()

    @override
    async def judge(self, stage: Stage) -> list[str]:
        kept = stage.notes["connections left"]
        return await super().judge(stage) + ([f"the server kept {kept:.0f} dead connections"] if kept else [])


def _write(path: Path, text: str) -> None:
    path.write_text(text)


SCENARIOS = (HostsPartition, OneWay, PacketLoss, LinkFlap, NetworkGone)
