"""Commands that run as processes of their own: what they print, how they end, and a worker in the middle of a job."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tests.waiting import eventually, in_time

from rowlock.model.state import State

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def exists(path: Path) -> bool:
    return await asyncio.to_thread(path.exists)


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    out, err = await in_time(process.communicate())
    return process.returncode, out.decode(), err.decode()


async def lines_until(stream: asyncio.StreamReader | None, text: str) -> list[str]:
    """The lines up to the one that contains `text`."""
    assert stream is not None
    lines = []
    async with asyncio.timeout(30):
        async for line in stream:
            lines.append(line.decode())
            if text in lines[-1]:
                return lines
    raise AssertionError(lines)


async def holding(cli: Cli, app: Rowlock, *words: str) -> tuple[asyncio.subprocess.Process, str, Path]:
    """A worker process in the middle of a job, the job's id, and the file that lets the job end."""
    started, release = cli.folder / "started", cli.folder / "release"
    public_id = await cli.enqueue("hold", started=str(started), release=str(release))
    process = await cli.start("worker", "--app", "tasks:app", "--name", "tester", *words)
    await eventually(lambda: exists(started), within=40)
    assert (await app.jobs.get(public_id)).state == State.RUNNING
    return process, public_id, release


def drain(terminal: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux: the other side is closed
            break
        parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()
