"""Nemeses of the network between clients and the server, by a proxy of our own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from typing_extensions import override

from torture.scenario import Scenario
from torture.stage import STALE

if TYPE_CHECKING:
    from torture.proxy import Proxy
    from torture.stage import Stage


class Proxied(Scenario):
    """Two workers and a producer, each behind a proxy of its own."""

    proxies: list[Proxy]

    @override
    async def set_up(self, stage: Stage) -> None:
        """First the workers', then the producer's."""
        self.proxies = [await stage.proxy() for _ in range(3)]
        for proxy in self.proxies[:2]:
            stage.worker(port=proxy.port)
        await stage.up(2)
        stage.producer(self.rate, port=self.proxies[2].port)


class Partition(Proxied):
    """One worker is cut off, half-open: its sockets stay, and nothing passes."""

    name = "partition"
    does = "one worker cut off from the database, its sockets open (blackhole)"
    bound = 5.0
    why = "its jobs were taken over meanwhile; the cut-off one is told that its claims are lost"
    seconds = (STALE + 5, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        victim = stage.random.randrange(2)
        await stage.busy(stage.workers[victim])
        self.proxies[victim].passable.clear()
        await asyncio.sleep(seconds)
        self.proxies[victim].passable.set()


class Blackhole(Proxied):
    """Everybody is cut off, sockets open."""

    name = "blackhole"
    does = "all cut off from the database, sockets open (blackhole), then all connections reset"
    bound = STALE + 8
    why = "as after an outage"
    seconds = (8.0, 60.0)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await stage.busy()
        for proxy in self.proxies:
            proxy.passable.clear()
        await asyncio.sleep(seconds)
        for proxy in self.proxies:
            proxy.reset_all()
            proxy.passable.set()


class Resets(Proxied):
    """Connections break, all at once, five times a second."""

    name = "resets"
    does = "all connections reset (RST), five times a second"
    bound = 5.0
    why = "reconnect within 2 s; forgotten claims are disowned with the next beats"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until, n = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            n += sum(proxy.reset_all() for proxy in self.proxies)
            await asyncio.sleep(stage.random.uniform(0.1, 0.3))
        stage.notes["reset"] = float(n)


class LostAnswers(Proxied):
    """The server commits and says so, and nobody hears it."""

    name = "lost-answers"
    does = "10 answers a second lost after the commit, their connections reset"
    bound = 5.0
    why = "reconnect within 2 s; forgotten claims are disowned with the next beats"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            stage.random.choice(self.proxies).lose_an_answer()
            await asyncio.sleep(0.1)
        stage.notes["lost answers"] = float(sum(proxy.lost for proxy in self.proxies))


class Slow(Proxied):
    """Every byte takes its time."""

    name = "slow"
    does = "50 ms of delay in each direction"
    bound = 5.0
    why = "slower, not stuck"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        del stage
        for proxy in self.proxies:
            proxy.delay = 0.05
        await asyncio.sleep(seconds)
        for proxy in self.proxies:
            proxy.delay = 0.0


class HalfOpen(Proxied):
    """What a failover or a forgetful router leaves behind: sockets that look alive."""

    name = "half-open"
    does = "every connection goes silent for ever, without a farewell; new ones work"
    bound = 15.0
    why = (
        "after 4 s without an answer workers and producers ask the server, over another connection, whether it is at "
        "the statement"
    )
    seconds = (0.0, 0.0)
    after = 12.0

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        del seconds
        await stage.busy()
        stage.notes["silenced"] = float(sum(proxy.silence_all() for proxy in self.proxies))


SCENARIOS = (Partition, Blackhole, HalfOpen, Resets, LostAnswers, Slow)
