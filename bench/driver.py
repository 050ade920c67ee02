"""What every measured system can do, and the program that makes it do it in the system's own environment.

    python -m bench.driver pgqueuer enqueue --jobs 1000

The answer is one line of JSON. BENCH_URL, BENCH_REDIS and BENCH_SLOTS say with what. Standard library alone: the
drivers in bench/peers bring the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

WARM_UP: Final = 20
"""Jobs enqueued before the clock starts: connections, plans and caches are there afterwards."""


class Driver:
    """One system. Subclasses implement what the system has."""

    def __init__(self) -> None:
        self.url = os.environ.get("BENCH_URL", "")
        self.redis_port = int(os.environ.get("BENCH_REDIS", "0"))
        self.slots = int(os.environ.get("BENCH_SLOTS", "10"))

    async def install(self) -> None:
        """Make the tables in an empty database, or empty the broker."""

    async def open(self) -> None:
        """Connect as a producer."""

    async def close(self) -> None:
        """Disconnect."""

    async def enqueue(self, number: int) -> None:
        """Enqueue one job that calls probe.hit(number)."""
        raise NotImplementedError

    async def enqueue_many(self, jobs: int) -> None:
        """Enqueue jobs the fastest way that returns their ids, if the system has one."""
        raise NotImplementedError

    async def work(self) -> None:
        """Run a worker until SIGTERM."""
        raise NotImplementedError

    def command(self) -> list[str] | None:
        """The system's own worker program, when it has to be used instead of work()."""
        return None


def terminated() -> asyncio.Event:
    """An event that SIGTERM sets."""
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, event.set)
    return event


def script(name: str) -> str:
    """A program that was installed beside this interpreter."""
    return str(Path(sys.executable).parent / name)


async def _enqueue(driver: Driver, asked: argparse.Namespace) -> dict[str, float]:
    """One by one, awaiting each; many: through the bulk call; together: several callers, to fill a queue."""
    await driver.open()
    try:
        if not asked.many and not asked.together:
            for _ in range(WARM_UP):
                await driver.enqueue(probe.UNNUMBERED)
        began, cpu = time.perf_counter(), time.process_time()
        if asked.many:
            await driver.enqueue_many(asked.jobs)
        elif asked.together:
            await _together(driver, asked.jobs, asked.together)
        else:
            for _ in range(asked.jobs):
                await driver.enqueue(probe.UNNUMBERED)
        return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    finally:
        await driver.close()


async def _together(driver: Driver, jobs: int, callers: int) -> None:
    numbers = iter(range(jobs))

    async def caller() -> None:
        for _ in numbers:
            await driver.enqueue(probe.UNNUMBERED)

    await asyncio.gather(*(caller() for _ in range(callers)))


async def _pace(driver: Driver, asked: argparse.Namespace) -> dict[str, float]:
    """Enqueue numbered jobs at a steady rate and keep when each call was made and returned.

    With several callers a job that is called late counts from when it was due: a slow producer hides nothing.
    """
    called, returned = [0.0] * asked.jobs, [0.0] * asked.jobs
    gap, callers = 1 / asked.rate, max(1, asked.together)
    numbers = iter(range(asked.jobs))

    async def caller(begin: float) -> None:
        for number in numbers:
            due = begin + number * gap
            await asyncio.sleep(max(0.0, due - time.time()))
            called[number] = due if callers > 1 else time.time()
            await driver.enqueue(number)
            returned[number] = time.time()

    await driver.open()
    try:
        for _ in range(asked.warm):
            await driver.enqueue(probe.UNNUMBERED)
            await asyncio.sleep(0.05)
        begin = time.time() + 0.5
        await asyncio.gather(*(caller(begin) for _ in range(callers)))
    finally:
        await driver.close()
    probe.write_calls(Path(os.environ["BENCH_RUN"]), os.environ["BENCH_TAG"], called, returned)
    return {"seconds": max(returned) - begin}


async def _install(driver: Driver, _asked: argparse.Namespace) -> dict[str, float]:
    await driver.install()
    return {}


async def _work(driver: Driver, _asked: argparse.Namespace) -> dict[str, float]:
    await driver.work()
    return {}


VERBS: Final[dict[str, Callable[[Driver, argparse.Namespace], Coroutine[Any, Any, dict[str, float]]]]] = {
    "install": _install,
    "enqueue": _enqueue,
    "pace": _pace,
    "work": _work,
}


def run(work: Coroutine[Any, Any, dict[str, float]]) -> dict[str, float]:
    """On uvloop where it is installed: every peer gets it."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.driver", description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--together", type=int, default=0)
    parser.add_argument("--rate", type=float, default=50.0, help="jobs per second of pace")
    parser.add_argument("--warm", type=int, default=5, help="jobs before pace begins")
    asked = parser.parse_args()
    driver: Driver = importlib.import_module(f"bench.peers.{asked.peer}").make()
    command = driver.command() if asked.verb == "work" else None
    if command is not None:
        os.execv(command[0], command)  # noqa: S606 - the program the driver names
    sys.stdout.write(json.dumps(run(VERBS[asked.verb](driver, asked))) + "\n")


if __name__ == "__main__":
    main()
