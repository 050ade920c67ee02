"""A socket between clients and the server of the tests that can fall silent, as after a failover or behind a router."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Proxy:
    """Passes everything on, while nobody says otherwise."""

    def __init__(self, url: str, folder: Path) -> None:
        parts = urlsplit(url)
        asked = parse_qs(parts.query)
        name = f".s.PGSQL.{asked['port'][0]}"
        self._theirs, self._ours = Path(asked["host"][0]) / name, folder / name
        self.url = urlunsplit(parts._replace(query=f"host={quote(str(folder))}&port={asked['port'][0]}"))
        self._lines: set[_Line] = set()
        self.closed_to_new = False
        """New connections are accepted, and nothing passes on them."""
        self.opened = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_unix_server(self._accept, self._ours)
        try:
            yield self
        finally:
            server.close()
            for line in list(self._lines):
                line.end()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        line = _Line(writer, silent=self.closed_to_new)
        self._lines.add(line)
        try:
            theirs, ours = await asyncio.open_unix_connection(self._theirs)
            line.writers.append(ours)
            await asyncio.gather(line.pump(reader, ours), line.pump(theirs, writer))
        except OSError:
            pass
        finally:
            line.end()
            self._lines.discard(line)

    def silence(self, *, answers_only: bool = False) -> int:
        """Let nothing pass on any connection there is; returns how many. answers_only: requests still arrive."""
        for line in self._lines:
            line.silent, line.deaf = True, not answers_only
        return len(self._lines)


class _Line:
    def __init__(self, client: asyncio.StreamWriter, *, silent: bool) -> None:
        self.writers = [client]
        self.silent = self.deaf = silent

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = writer is self.writers[0]
        while data := await reader.read(65536):
            if not (self.silent if answers else self.deaf):
                writer.write(data)
                await writer.drain()
        self.end()

    def end(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def between(url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of that server."""
    # Not tmp_path: the name of a socket has room for about a hundred letters.
    with tempfile.TemporaryDirectory(prefix="rowlock-proxy-") as folder:
        async with Proxy(url, Path(folder)).running() as proxy:
            yield proxy
