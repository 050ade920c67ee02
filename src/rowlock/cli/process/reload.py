"""Hot reload: the worker runs as a child, which is replaced whenever its source changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.process.file_changes import SUFFIXES, FileChanges
from rowlock.cli.process.reload_child import LAST, PATIENCE, SIGNALS
from rowlock.errors import EmbeddedError
from rowlock.flow.executors.os_process import ending
from rowlock.store import embedded

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import TypeAlias

    from rowlock.cli.context import CommandContext

    ChildReport: TypeAlias = dict[str, Any]
    OnStart: TypeAlias = Callable[[ChildReport, float], None]
    """Called with the child's report and the seconds that its start took."""

logger = logging.getLogger("rowlock.cli")
_OWN: Final = frozenset({"reload", "reload_dir", "follow"})
_FEW: Final = 3
_LONGEST: Final = 2**24
"""Largest report in bytes: it names every kind."""


def command(context: CommandContext, options: dict[str, Any], *extra: str) -> list[str]:
    """The command line of the same `rowlock worker` without --reload."""
    common = {"app": context.app_path, "database_url": context.database_url, "schema": context.schema}
    options = {**common, "json": context.screen.as_json, **options}
    words = [sys.executable, "-m", "rowlock", "worker", *extra]
    for name, value in options.items():
        if name in _OWN or value is None or value is False:
            continue
        option = f"--{name.replace('_', '-')}"
        words.append(option if value is True else f"{option}={value}")
    return words


def watch(
    words: Sequence[str],
    folders: Sequence[Path] | None,
    on_start: OnStart | None = None,
    passed: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run that command until Ctrl-C or SIGTERM, again after each change; on_start is called after each start.

    passed: descriptors that each child gets. environment: variables that each child gets beside those of this process.
    """
    reloader = Reloader(words, list(folders or [Path.cwd()]), on_start, passed, environment)
    asyncio.run(reloader.run())


def watched(folders: Sequence[Path] | None) -> str:
    """The watched files in words."""
    below = ", ".join(str(folder) for folder in folders or [Path.cwd()])
    return f"{' '.join(SUFFIXES)} files below {below}"


class Reloader:
    """Keeps one child process and replaces it when a file changes; errors in its code do not end the reloader."""

    def __init__(
        self,
        words: Sequence[str],
        folders: Sequence[Path],
        on_start: OnStart | None = None,
        passed: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._words, self._on_start, self._passed = words, on_start, passed
        self._environment = {**os.environ, **(environment or {})}
        self._changes = FileChanges(folders, self._on_changes)
        self._changed, self._stopping, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._files: set[str] = set()
        self._held: embedded.Embedded | None = None

    async def run(self) -> None:
        """Run until a signal comes; no child is left behind."""
        loop = asyncio.get_running_loop()
        for number in (*SIGNALS, signal.SIGHUP):  # the last one when the terminal is closed
            loop.add_signal_handler(number, self._on_signal)
        listening = asyncio.create_task(self._changes.run())
        # The watches begin at the first step of their tasks: a change while the child starts must not be missed.
        for _ in range(_FEW):
            await asyncio.sleep(0)
        try:
            while not self._stopping.is_set():
                await self._generation(listening)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            if self._held is not None:
                self._held.close()

    async def _generation(self, listening: asyncio.Task[None]) -> None:
        """Start one child and wait until it ends or a file changes."""
        self._changed.clear()
        self._files.clear()
        child, line = await self._start()
        listening_to_child = asyncio.create_task(self._listen(line, time.monotonic()))
        ended = asyncio.create_task(child.wait())
        try:
            await _first(ended, listening, self._changed.wait(), self._stopping.wait())
            if ended.done() and not self._changed.is_set() and not self._stopping.is_set():
                logger.error("the worker ended %s: waiting for a change", ending(child.returncode))
                await _first(listening, self._changed.wait(), self._stopping.wait())
            if self._changed.is_set() and not self._stopping.is_set():
                logger.info("%s changed: the worker starts again", _some(self._files))
        finally:
            await self._stop(child, ended)
            listening_to_child.cancel()
            await asyncio.gather(listening_to_child, return_exceptions=True)
            line.close()
        if listening.done():
            listening.result()

    async def _start(self) -> tuple[Process, socket.socket]:
        ours, theirs = socket.socketpair()
        # Ctrl-C goes to every process of the terminal. Blocked here, it does not interrupt the child's imports.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            child = await asyncio.create_subprocess_exec(
                *self._words,
                "--follow",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno(), *self._passed],
                env=self._environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            theirs.close()
        return child, ours

    async def _stop(self, child: Process, ended: asyncio.Task[int]) -> None:
        """Drain briefly, then have running jobs returned to the queue, then kill."""
        if ended.done():
            return
        _terminate(child)
        # A second Ctrl-C shortens the drain.
        await _first(ended, self._hurry.wait(), timeout=PATIENCE)
        if not ended.done():
            _terminate(child)
            await asyncio.wait({ended}, timeout=LAST)
        if not ended.done():
            logger.error("process %d does not end: it is killed, its jobs are rescued later", child.pid)
            child.kill()
            await ended

    async def _listen(self, line: socket.socket, began: float) -> None:
        reader, writer = await asyncio.open_connection(sock=line, limit=_LONGEST)
        try:
            async for text in reader:
                report: ChildReport = json.loads(text)
                if report.get("data_dir") and self._held is None:
                    # Hold the embedded server, which would otherwise stop and start between two children.
                    with contextlib.suppress(EmbeddedError):
                        self._held = await asyncio.to_thread(embedded.start, Path(report["data_dir"]))
                if report.get("worker") and self._on_start is not None:
                    self._on_start(report, time.monotonic() - began)
        finally:
            writer.close()

    def _on_changes(self, files: list[str]) -> None:
        self._files.update(files)
        self._changed.set()

    def _on_signal(self) -> None:
        (self._hurry if self._stopping.is_set() else self._stopping).set()


async def _first(*waited: asyncio.Task[Any] | Coroutine[Any, Any, Any], timeout: float | None = None) -> None:
    """Wait until one of these is done; then coroutines are cancelled, and tasks go on."""
    tasks = [one if isinstance(one, asyncio.Task) else asyncio.create_task(one) for one in waited]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one, task in zip(waited, tasks, strict=True):
            if one is not task:
                task.cancel()


def _terminate(child: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.terminate()


def _some(files: set[str]) -> str:
    names = sorted(os.path.relpath(file) for file in files)
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more
