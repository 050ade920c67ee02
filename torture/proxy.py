"""A TCP proxy between clients and the server that can go wrong: blackhole, reset, delay, lost answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from typing import Final, Self

_CHUNK: Final = 65536
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of no seconds: close() sends RST."""


class _Pair:
    """One client's connection and its twin to the server."""

    def __init__(self, client: tuple[asyncio.StreamReader, asyncio.StreamWriter], port: int, owner: Proxy) -> None:
        self._client, self._port, self._owner = client, port, owner
        self._upstream: asyncio.StreamWriter | None = None
        self.silent = False
        """Open on both sides, and nothing passes any more: as after a failover, or behind a router that forgot it."""
        self.lose = False
        """The next answer of the server is swallowed, and the connection reset: the client never learns of it."""

    async def run(self) -> None:
        reader, writer = self._client
        try:
            await self._owner.passable.wait()
            answers, self._upstream = await asyncio.open_connection("127.0.0.1", self._port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, self._upstream, answers=False))
                group.create_task(self._pump(answers, writer, answers=True))
        except* (OSError, EOFError):
            pass
        finally:
            self.reset()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        while True:
            data = await reader.read(_CHUNK)
            if not data:
                message = "closed"
                raise EOFError(message)
            if self._owner.delay:
                await asyncio.sleep(self._owner.delay)
            await self._owner.passable.wait()
            if self.silent:
                continue
            if answers and self.lose:
                self._owner.lost += 1
                message = "lost"
                raise EOFError(message)
            writer.write(data)
            await writer.drain()

    def reset(self) -> None:
        """Both sockets at once; the client gets an RST, not a farewell."""
        with contextlib.suppress(OSError, AttributeError):
            self._client[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        for writer in (self._client[1], self._upstream):
            if writer is not None:
                writer.transport.abort()


class Proxy:
    """Listens on a port of its own and passes everything on, while nobody says otherwise."""

    def __init__(self, port: int) -> None:
        """port: the server's, on 127.0.0.1."""
        self.target = port
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.passable = asyncio.Event()
        """Cleared: a blackhole. Connections stay open, new ones are accepted, and nothing passes."""
        self.passable.set()
        self.delay = 0.0
        """Seconds, for each direction."""
        self.lost = 0
        """Answers swallowed."""

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        if self._server is None:
            raise RuntimeError("The proxy is not open. Use it as a context manager.")
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.reset_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = _Pair((reader, writer), self.target, self)
        self._pairs.add(pair)
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await pair.run()
        finally:
            self._pairs.discard(pair)
            if task is not None:
                self._tasks.discard(task)

    def reset_all(self) -> int:
        """Reset every connection; returns how many there were."""
        pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()
        return len(pairs)

    def silence_all(self) -> int:
        """Nothing passes over the connections there are, for ever; new ones work. Returns how many there were."""
        for pair in self._pairs:
            pair.silent = True
        return len(self._pairs)

    def lose_an_answer(self) -> None:
        """Of some connection: the next thing the server answers there is never heard."""
        candidates = [pair for pair in self._pairs if not pair.lose]
        if candidates:
            random.choice(candidates).lose = True  # noqa: S311 - which one does not matter
