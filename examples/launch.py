"""The programs of an example, started together: their output with a name in front, and their end at Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Coroutine, Mapping, Sequence

_START_SECONDS: Final = 120
"""Time for a program to listen on its port: it imports a framework and opens the database."""
_END_SECONDS: Final = 40
"""Time for a program to end after SIGTERM: longer than a worker drains."""


@dataclass(frozen=True)
class Program:
    """One program. words: what follows `python`; port: where it listens on this machine, None if it does not."""

    name: str
    words: Sequence[str]
    port: int | None
    environ: Mapping[str, str] = field(default_factory=dict)


class ExampleFailed(Exception):
    """An example that cannot start, or a program of it that ended by itself."""


async def run_together(programs: Sequence[Program], greeting: str) -> None:
    """Start the programs, print the greeting when all of them listen, and end them at SIGINT or SIGTERM."""
    for program in programs:
        if program.port is not None:
            _demand_free(program.port)
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, asked_to_end.set)
    started: list[tuple[Program, Process]] = []
    copying: list[asyncio.Task[None]] = []
    try:
        for program in programs:
            started.append((program, await _start(program)))
            copying.append(asyncio.create_task(_copy(*started[-1])))
        await _first(asked_to_end.wait(), _all_listen(programs), *map(_unexpected_end, started))
        if not asked_to_end.is_set():
            print(greeting, flush=True)  # noqa: T201 - what a person reads
            await _first(asked_to_end.wait(), *map(_unexpected_end, started))
    finally:
        await asyncio.gather(*(_end(process) for _, process in started))
        await asyncio.gather(*copying)


def _demand_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            message = f"Port {port} of this machine cannot be used: {error.strerror}. Choose others with --port."
            raise ExampleFailed(message) from error


async def _start(program: Program) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *program.words,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **program.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # Ctrl-C reaches this program alone, which then ends the others with SIGTERM: their workers drain.
        start_new_session=True,
    )


async def _copy(program: Program, process: Process) -> None:
    if process.stdout is not None:
        async for line in process.stdout:
            print(f"{program.name:>8} | {line.decode(errors='replace').rstrip()}", flush=True)  # noqa: T201 - as above


async def _all_listen(programs: Sequence[Program]) -> None:
    async with asyncio.timeout(_START_SECONDS):
        for program in programs:
            while program.port is not None and not await _listens(program.port):  # noqa: ASYNC110 - see below
                await asyncio.sleep(0.1)  # another process has no event to wait for


async def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False


async def _unexpected_end(started: tuple[Program, Process]) -> None:
    program, process = started
    code = await process.wait()
    message = f"{program.name} ended by itself with exit code {code}; its output is above."
    raise ExampleFailed(message)


async def _first(*works: Coroutine[Any, Any, object]) -> None:
    """Wait for the first of these coroutines, cancel the others, and raise what it raised."""
    tasks = [asyncio.create_task(work) for work in works]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    for task in done:
        task.result()


async def _end(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
