"""A worker process: python -m tests.torture.worker URL [NAME]. SIGTERM drains, a second one hurries."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from tests.torture.jobs import make


async def main(url: str, name: str | None = None, shutdown_after: str = "10") -> None:
    app = make(url, shutdown_after=float(shutdown_after))
    worker = app.make_worker(name=name)
    stops: list[asyncio.Task[None]] = []

    def stop() -> None:
        if stops:
            worker.hurry()
        stops.append(loop.create_task(worker.stop()))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await worker.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await worker.stopped.wait()
    await asyncio.gather(*stops)
    await app.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main(*sys.argv[1:]))
