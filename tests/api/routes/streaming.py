"""A process that serves the door of an application, and clients that read streams as a browser does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import httpx
from tests.waiting import PATIENCE, busy_for, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

SERVE = """
import asyncio, logging, sys
from rowlock import Rowlock
from rowlock.api.server import Server
from rowlock.settings import Settings

about = {"host": "127.0.0.1", "port": int(sys.argv[2]), "root_path": ""}
about |= {"auth": None, "read_only": False, "insecure_no_auth": True}
many = {"serve_streams": 500, "serve_streams_per_caller": 500}

async def main():
    await Server(Rowlock(sys.argv[1], settings=Settings(**many)), **about).run_until_signalled()

given_up = []

class Told(logging.Handler):
    def emit(self, record):
        given_up.append(record.getMessage())

logging.getLogger("uvicorn").addHandler(Told(logging.ERROR))
asyncio.run(main())
sys.exit(given_up or 0)
"""
"""Exit code 0: it gave up on nobody who was being answered. No clock says so as well on a busy machine."""


@dataclass(slots=True)
class Frame:
    """One event as it came over the wire."""

    event: str = "message"
    data: dict[str, Any] = field(default_factory=dict)
    id: str = ""


class EventSource:
    """Reads a stream, comes back with the last id when it breaks, stops at 204, and gives up at any other status."""

    def __init__(self, client: httpx.AsyncClient, url: str, last_id: str = "", *, pause: float = 0.5) -> None:
        self._client, self._url, self._pause = client, url, pause
        self.last_id, self.opened, self.comments, self.retry = last_id, 0, 0, 0

    async def frames(self) -> AsyncGenerator[Frame, None]:
        while True:
            with contextlib.suppress(httpx.TransportError):
                headers = {"Accept": "text/event-stream"}
                headers |= {"Last-Event-ID": self.last_id} if self.last_id else {}
                async with self._client.stream("GET", self._url, headers=headers) as response:
                    if response.status_code == httpx.codes.NO_CONTENT:
                        return
                    assert response.status_code == httpx.codes.OK, await response.aread()
                    self.opened += 1
                    async for frame in self._read(response):
                        yield frame
            await busy_for(self._pause)

    async def _read(self, response: httpx.Response) -> AsyncIterator[Frame]:
        frame = Frame()
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            match name:
                case "":
                    if line:
                        self.comments += 1
                        continue
                    self.last_id = frame.id or self.last_id
                    if frame.data:
                        yield frame
                    frame = Frame()
                case "retry":
                    self.retry = int(value)
                case "data":
                    frame.data = json.loads(value)
                case _:
                    setattr(frame, name, value)


@dataclass(slots=True)
class Serving:
    """The API as a process of its own, which can be ended and started again on the same port."""

    url: str
    port: int
    process: asyncio.subprocess.Process | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v1"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end(signal.SIGKILL)

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVE, self.url, str(self.port))
        async with httpx.AsyncClient(timeout=PATIENCE) as client:

            async def answers() -> bool:
                assert self.process is not None
                assert self.process.returncode is None, "it ended at once"
                with contextlib.suppress(httpx.TransportError):
                    return (await client.get(f"http://127.0.0.1:{self.port}/healthz")).is_success
                return False

            await eventually(answers)

    async def end(self, how: signal.Signals) -> int | None:
        """Its exit code."""
        if self.process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, how)
        code = await self.process.wait()
        self.process = None
        return code


FRAME = re.compile(r"(?:id: (?P<id>\S+)\n)?event: (?P<event>\S+)\ndata: (?P<data>.*)\n\n")
