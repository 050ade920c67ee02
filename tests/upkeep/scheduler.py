"""A worker process with the kind of tests.upkeep.test_cron: python -m tests.upkeep.scheduler URL."""

from __future__ import annotations

import asyncio
import sys

from rowlock import Rowlock, Settings


async def main(url: str) -> None:
    app = Rowlock(url, settings=Settings())

    @app.job
    async def tick(n: int = 1) -> int:
        return n

    async with app.worker():
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
