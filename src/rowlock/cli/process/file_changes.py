"""Changes of source files, as the operating system reports them; folders without edited files are not watched."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

SUFFIXES: Final = (".py", ".sql", ".toml", ".env")
_IGNORED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Beside everything that begins with a dot: .git, .venv, and most of all the embedded database in .rowlock."""
_ADDED: Final = 1
_SETTLE: Final = 300
"""Milliseconds at most in which further changes join the first: an editor, or git, writes several files at once."""


def is_ignored(folder: str) -> bool:
    """Whether a folder of that name holds no files that people edit."""
    return folder.startswith(".") or folder in _IGNORED


def is_source(path: str, below: Iterable[Path]) -> bool:
    """Whether a change of this file may change what a worker does."""
    file = Path(path)
    if not (file.suffix in SUFFIXES or file.name == ".env" or file.name.startswith(".env.")):
        return False
    root = next((folder for folder in below if file.is_relative_to(folder)), None)
    return root is not None and not any(is_ignored(part) for part in file.relative_to(root).parts[:-1])


class FileChanges:
    """Calls `on_change` with the files that changed below the folders. Needs the extra `reload`."""

    def __init__(self, folders: Sequence[Path], on_change: Callable[[list[str]], None]) -> None:
        try:
            from watchfiles import awatch
        except ImportError:
            raise MissingExtra("watchfiles", "reload") from None
        self._awatch: Any = awatch
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # its own line for every change, ours says more
        self._folders = [folder.resolve() for folder in folders]
        self._on_change = on_change
        for folder in self._folders:
            if not folder.is_dir():
                raise ConfigurationError(f"--reload-dir takes a folder; {folder} is none.")

    async def run(self) -> None:
        """Listen until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for folder in self._folders:
                    group.create_task(self._listen_flat(folder, group))
        except* ConfigurationError as failed:
            raise failed.exceptions[0] from None

    async def _listen_flat(self, folder: Path, group: asyncio.TaskGroup) -> None:
        # The folder itself is watched flat and only its worthwhile parts in depth: a watch on every folder of an
        # environment or of node_modules costs seconds and the system's watches, and a database writes all the time.
        deep = [Path(entry.path) for entry in os.scandir(folder) if _is_worth(entry)]
        if deep:
            group.create_task(self._listen(*deep))
        async for added in self._changes_in(folder, recursive=False):
            for new in added:
                group.create_task(self._listen(new))
                # Files written before the watch began: the folder is read as a whole.
                if sources := [str(file) for file in new.rglob("*") if is_source(str(file), self._folders)]:
                    self._on_change(sources)

    async def _listen(self, *folders: Path) -> None:
        async for _ in self._changes_in(*folders, recursive=True):
            pass

    async def _changes_in(self, *folders: Path, recursive: bool) -> AsyncIterator[list[Path]]:
        """Report changed sources; yields folders that are new."""
        options = {"recursive": recursive, "ignore_permission_denied": True, "debounce": _SETTLE}
        try:
            async for changes in self._awatch(*folders, watch_filter=None, **options):
                if sources := sorted(path for _, path in changes if is_source(path, self._folders)):
                    self._on_change(sources)
                added = {Path(path) for change, path in changes if change == _ADDED}
                yield [path for path in added if path.is_dir() and not is_ignored(path.name)]
        except OSError as error:
            raise ConfigurationError(
                f"The operating system cannot watch {', '.join(map(str, folders))}: {error}. "
                "Name fewer folders with --reload-dir."
            ) from error


def _is_worth(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return entry.is_dir() and not is_ignored(entry.name)
    return False
