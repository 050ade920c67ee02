"""A receiver of webhooks: a real HTTP server on this machine, which answers what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from standardwebhooks import Webhook as Verifier
from tests.waiting import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Message:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["data"]
        return found

    @property
    def type(self) -> str:
        return str(json.loads(self.body)["type"])

    def verified_by(self, secret: str) -> Any:  # noqa: ANN401 - the body
        """The body, after the official package has verified the signature; it raises if that does not fit."""
        return Verifier(secret).verify(self.body, self.headers)


@dataclass
class Receiver:
    """Keeps every message, and answers with these heads in turn; the last one stays."""

    port: int = 0
    answers: list[str | Answer] = field(default_factory=lambda: ["204 No Content"])
    messages: list[Message] = field(default_factory=list)
    connections: int = 0
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks?from=rowlock"

    async def received(self, n: int = 1) -> list[Message]:
        """The messages, once there are so many."""
        await until(lambda: len(self.messages) >= n)
        return self.messages

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if (task := asyncio.current_task()) is not None:
            self.tasks.append(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.messages.append(Message(line.split()[1], headers, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, str):
            writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        else:
            await answer(reader, writer)


@contextlib.asynccontextmanager
async def receiving(context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, host, 0, ssl=context)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in receiver.tasks:
            task.cancel()
        await asyncio.gather(*receiver.tasks, return_exceptions=True)
