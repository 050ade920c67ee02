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

from rowlock.cli.process.file_changes import SUFFIXES, Changes
from rowlock.cli.process.watcher import LAST, PATIENCE, SIGNALS
from rowlock.errors import EmbeddedError
from rowlock.flow.executors.os_process import ending
from rowlock.store import embedded

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Coroutine, Sequence
    from typing import TypeAlias

    from rowlock.cli.call import Call

    News: TypeAlias = dict[str, Any]
    Welcome: TypeAlias = Callable[[News, float], None]
    """Gets what the child says of itself, and the seconds its start took."""

logger = logging.getLogger("rowlock.cli")
_OWN: Final = frozenset({"reload", "reload_dir", "follow"})
_FEW: Final = 3
_LONGEST: Final = 2**24
"""Bytes of a line of news at most: it names every kind."""


def command(call: Call, given: dict[str, Any], *extra: str) -> list[str]:
    """The ordinary `rowlock worker` that this call asks for, without its reloading."""
    common = {"app": call.app_path, "database_url": call.database_url, "schema": call.schema}
    options = {**common, "json": call.screen.as_json, **given}
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
    welcome: Welcome | None = None,
    passed: Sequence[int] = (),
) -> None:
    """Run that command until Ctrl-C or SIGTERM, again after each change; welcome hears of each start.

    passed: descriptors that each child gets.
    """
    reloader = Reloader(words, list(folders or [Path.cwd()]), welcome, passed)
    asyncio.run(reloader.run())


def watched(folders: Sequence[Path] | None) -> str:
    """What is watched, for people."""
    below = ", ".join(str(folder) for folder in folders or [Path.cwd()])
    return f"{' '.join(SUFFIXES)} files below {below}"


class Reloader:
    """Keeps one child; nothing that its code does can end the watch."""

    def __init__(
        self,
        words: Sequence[str],
        folders: Sequence[Path],
        welcome: Welcome | None = None,
        passed: Sequence[int] = (),
    ) -> None:
        self._words, self._welcome, self._passed = words, welcome, passed
        self._changes = Changes(folders, self._on_changes)
        self._changed, self._told, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._files: set[str] = set()
        self._held: embedded.Embedded | None = None

    async def run(self) -> None:
        """Until a signal tells to stop; no child is left behind."""
        loop = asyncio.get_running_loop()
        for number in (*SIGNALS, signal.SIGHUP):  # the last one when the terminal is closed
            loop.add_signal_handler(number, self._hear)
        listening = asyncio.create_task(self._changes.run())
        # The listeners register at their first step: a change while the child reads its source must not be missed.
        for _ in range(_FEW):
            await asyncio.sleep(0)
        try:
            while not self._told.is_set():
                await self._generation(listening)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            if self._held is not None:
                self._held.close()

    async def _generation(self, listening: asyncio.Task[None]) -> None:
        """One child: start it, see it end or its source change."""
        self._changed.clear()
        self._files.clear()
        child, line = await self._start()
        hearing = asyncio.create_task(self._listen(line, time.monotonic()))
        ended = asyncio.create_task(child.wait())
        try:
            await _first(ended, listening, self._changed.wait(), self._told.wait())
            if ended.done() and not self._changed.is_set() and not self._told.is_set():
                logger.error("the worker ended %s: waiting for a change", ending(child.returncode))
                await _first(listening, self._changed.wait(), self._told.wait())
            if self._changed.is_set() and not self._told.is_set():
                logger.info("%s changed: the worker starts again", _some(self._files))
        finally:
            await self._stop(child, ended)
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            line.close()
        if listening.done():
            listening.result()

    async def _start(self) -> tuple[Process, socket.socket]:
        ours, theirs = socket.socketpair()
        # Ctrl-C goes to every process of the terminal. Blocked it reaches the child's Python, not its imports.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            child = await asyncio.create_subprocess_exec(
                *self._words, "--follow", str(theirs.fileno()), pass_fds=[theirs.fileno(), *self._passed]
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
        # A second Ctrl-C of the person in front of it shortens the drain.
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
                news: News = json.loads(text)
                if news.get("data_dir") and self._held is None:
                    # Between two children nobody uses the embedded server: it would stop and start each time.
                    with contextlib.suppress(EmbeddedError):
                        self._held = await asyncio.to_thread(embedded.start, Path(news["data_dir"]))
                if news.get("worker") and self._welcome is not None:
                    self._welcome(news, time.monotonic() - began)
        finally:
            writer.close()

    def _on_changes(self, files: list[str]) -> None:
        self._files.update(files)
        self._changed.set()

    def _hear(self) -> None:
        (self._hurry if self._told.is_set() else self._told).set()


async def _first(*waited: asyncio.Task[Any] | Coroutine[Any, Any, Any], timeout: float | None = None) -> None:
    """Until the first is done; coroutines are cancelled afterwards, tasks go on."""
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
