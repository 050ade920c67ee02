"""Producers as applications have them: requests with a transaction of their own, and jobs of a lane beside a busy one.

    python -m bench.asking request --milliseconds 100 --jobs 50

Runs in Rowlock's environment; writes the moments where `bench.driver pace` does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from bench import driver, probe
from bench.peers import minimal
from bench.peers import rowlock as itself

_GAP: Final = 0.02
"""Seconds between two requests."""
_BLOCK: Final = 25
"""Jobs of one system before it is the other's turn."""


async def request(asked: argparse.Namespace) -> dict[str, float]:
    """Enqueue in a session's transaction, let it last, commit: the clock starts with the commit."""
    engine = create_async_engine(os.environ["BENCH_URL"].replace("postgresql:", "postgresql+asyncpg:"))
    called, returned = [], []
    for number in [probe.UNNUMBERED] * asked.warm + list(range(asked.jobs)):
        async with AsyncSession(engine) as session:
            await itself.TASKS[0].options(session=session).enqueue(number=number)
            await asyncio.sleep(asked.milliseconds / 1000)
            begin = time.time()
            await session.commit()
            if number >= 0:
                called.append(begin)
                returned.append(time.time())
        await asyncio.sleep(_GAP)
    await engine.dispose()
    return await _kept(called, returned)


async def quick(asked: argparse.Namespace) -> dict[str, float]:
    """Enqueue into the lane `quick`, a job every so often."""
    called, returned = [], []
    for number in [probe.UNNUMBERED] * asked.warm + list(range(asked.jobs)):
        begin = time.time()
        await itself.quick.enqueue(number=number)
        if number >= 0:
            called.append(begin)
            returned.append(time.time())
        await asyncio.sleep(_GAP)
    return await _kept(called, returned)


async def alternate(asked: argparse.Namespace) -> dict[str, float]:
    """Enqueue one by one, blocks of Rowlock's and of the minimal loop's in turn: both meet the same neighbours."""
    drivers = {"rowlock": itself.make(), "minimal": minimal.make()}
    drivers["minimal"].url = os.environ["BENCH_OTHER"]
    spent: dict[str, list[float]] = {name: [] for name in drivers}
    cpu: dict[str, float] = dict.fromkeys(drivers, 0.0)
    for system in drivers.values():
        await system.open()
        for _ in range(_BLOCK):
            await system.enqueue(probe.UNNUMBERED)
    for _ in range(max(1, asked.jobs // _BLOCK)):
        for name, system in drivers.items():
            began, used = time.perf_counter(), time.process_time()
            for _ in range(_BLOCK):
                await system.enqueue(probe.UNNUMBERED)
            spent[name].append(time.perf_counter() - began)
            cpu[name] += time.process_time() - used
    for system in drivers.values():
        await system.close()
    rates = {name: _BLOCK / statistics.median(blocks) for name, blocks in spent.items()}
    return rates | {f"{name}_us": cpu[name] / len(blocks) / _BLOCK * 1e6 for name, blocks in spent.items()}


async def _kept(called: list[float], returned: list[float]) -> dict[str, float]:
    await itself.app.close()
    probe.write_calls(Path(os.environ["BENCH_RUN"]), os.environ["BENCH_TAG"], called, returned)
    return {}


VERBS: Final = {"request": request, "quick": quick, "alternate": alternate}


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.asking", description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--milliseconds", type=float, default=5.0)
    asked = parser.parse_args()
    sys.stdout.write(json.dumps(driver.run(VERBS[asked.verb](asked))) + "\n")


if __name__ == "__main__":
    main()
