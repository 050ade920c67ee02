"""`python -m examples.NAME` as a person starts it: until its links are printed, and to its end at Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from tests.docs.named_places import ROOT
from tests.waiting import PATIENCE, in_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Running:
    """A started application. greeting: what it has printed until then; rest: what follows, once it has ended."""

    def __init__(self, process: asyncio.subprocess.Process, greeting: str) -> None:
        assert process.stdout is not None
        self.greeting, self.rest = greeting, ""
        self._process, self._listening = process, asyncio.create_task(process.stdout.read())

    async def stop(self) -> None:
        """Press Ctrl-C; the application ends in order."""
        self._process.send_signal(signal.SIGINT)
        assert await in_time(self._process.wait()) == 0
        self.rest = (await self._listening).decode()


@contextlib.asynccontextmanager
async def one_command(
    name: str, *options: str, database_url: str, home: Path, environ: dict[str, str] | None = None
) -> AsyncIterator[Running]:
    """Start the application on a database; ended by stop(), or with the block. environ: instead of this process's."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"examples.{name}", *options),
        cwd=ROOT,
        env={**(os.environ if environ is None else environ), "ROWLOCK_DATABASE_URL": database_url, "HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        said = b""
        while b"Ctrl-C ends it" not in said:
            line = await asyncio.wait_for(process.stdout.readline(), 2 * PATIENCE)
            assert line, said.decode()
            said += line
        yield Running(process, said.decode())
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
