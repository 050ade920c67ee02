"""Producers as applications have them: requests with a transaction of their own, and jobs of a lane beside a busy one.

    python -m bench.asking request --milliseconds 100 --jobs 50

Runs in Rowlock's environment; writes the moments where `bench.driver pace` does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from bench import driver, probe
from bench.peers import rowlock as itself

_GAP = 0.02
"""Seconds between two requests."""


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


async def _kept(called: list[float], returned: list[float]) -> dict[str, float]:
    await itself.app.close()
    probe.write_calls(Path(os.environ["BENCH_RUN"]), os.environ["BENCH_TAG"], called, returned)
    return {}


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.asking", description=__doc__)
    parser.add_argument("verb", choices=["request", "quick"])
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--milliseconds", type=float, default=5.0)
    asked = parser.parse_args()
    sys.stdout.write(json.dumps(driver.run({"request": request, "quick": quick}[asked.verb](asked))) + "\n")


if __name__ == "__main__":
    main()
