"""Databases: one server per test run, one template database, and a fresh clone of it for every test."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections import defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from rowlock.bridge import Bridge
from rowlock.errors import ConfigurationError, MissingExtra
from rowlock.store import embedded
from rowlock.store.embedded import home
from rowlock.testing.scratch_databases import ScratchDatabases, at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Prepare = Callable[[str], object]
    """Called with the URL of the template, once per run; may be async."""

logger = logging.getLogger("rowlock.testing")
T = TypeVar("T")
VARIABLE: Final = "ROWLOCK_TEST_DATABASE_URL"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_VERSION: Final = 18
_BASIC: Final = {"max_connections": "300", "autovacuum": "off", "jit": "off"}
_HASTY: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Only where a reboot is noticed: a server that never syncs does not survive one."""


@dataclass(frozen=True, slots=True)
class ClonedDatabase:
    """The database of one test."""

    name: str
    url: str
    schema: str


class Databases:
    """Fresh databases for tests; open it once per process, and give the processes of one run the same `run`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        run: str | None = None,
        prepare: Prepare | None = None,
        ahead: int = 1,
    ) -> None:
        """url: a server to use, None for ROWLOCK_TEST_DATABASE_URL or else the embedded one.

        prepare: called with the template's URL, once per run, to add your own tables. ahead: clones kept ready.
        """
        self._url, self._prepare, self._ahead = url or os.environ.get(VARIABLE, "").strip() or None, prepare, ahead
        self._run = (
            secrets.randbits(63) if run is None else int.from_bytes(hashlib.sha256(run.encode()).digest()[:8]) >> 1
        )
        self.bridge = Bridge()
        """An event loop in a thread, for statements that belong to no test."""
        self._server: embedded.Embedded | None = None
        self._scratch: ScratchDatabases | None = None
        self._templates: dict[str, asyncio.Task[str]] = {}
        self._ready: defaultdict[str, deque[asyncio.Task[ClonedDatabase]]] = defaultdict(deque)
        self._dropping: set[asyncio.Task[None]] = set()

    def open(self) -> Self:
        """Start or join the server, and drop the databases of crashed runs. Safe to call twice."""
        if self._scratch is None:
            url = self._url
            if url is None:
                self._server = start_embedded()
                url = self._server.url
            # A copy of the files is twice as fast as logging every page, but asks for a checkpoint: cheap only here.
            self._scratch = ScratchDatabases(
                url, self._run, strategy="wal_log" if self._server is None else "file_copy"
            )
            self._url = url
            dropped = self.bridge.run(self._scratch.open())
            if dropped:
                logger.info("dropped %d databases of test runs that are over", len(dropped))
        return self

    def close(self) -> None:
        """Drop this process's databases; the run's last process drops the template too."""
        if self._scratch is not None:
            self.bridge.run(self._close())
            self._scratch = None
        self.bridge.close()
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def lend(self, schema: str = "rowlock") -> ClonedDatabase:
        """A new database with Rowlock's schema, for the caller alone."""
        self.open()
        return self.bridge.run(self._lend(schema))

    def take_back(self, lent: ClonedDatabase) -> None:
        """Drop it, in the background."""
        if self._scratch is not None:
            self.bridge.run(self._drop_soon(lent))

    def hang_up(self, lent: ClonedDatabase) -> int:
        """End every connection to it; returns how many there were."""
        return self.bridge.run(self._opened().hang_up(lent.name))

    @contextlib.contextmanager
    def away(self, lent: ClonedDatabase) -> Iterator[None]:
        """Make the database unreachable during this block."""
        self.bridge.run(self._opened().take_away(lent.name))
        try:
            yield
        finally:
            self.bridge.run(self._opened().bring_back(lent.name))

    def _opened(self) -> ScratchDatabases:
        if self._scratch is None:
            message = "The test databases are not open. Call open(), or use them in a with block."
            raise ConfigurationError(message)
        return self._scratch

    async def _lend(self, schema: str) -> ClonedDatabase:
        ready = self._ready[schema]
        wanted = 1 + self._ahead - len(ready)
        ready.extend(asyncio.ensure_future(self._clone(schema)) for _ in range(wanted))
        first = ready.popleft()
        return await first

    async def _clone(self, schema: str) -> ClonedDatabase:
        building = self._templates.get(schema)
        if building is None:
            label = hashlib.sha256(f"{schema} {_source(self._prepare)}".encode()).hexdigest()[:8]
            building = asyncio.ensure_future(self._opened().template(label, schema, self._prepared))
            self._templates[schema] = building
        name = await self._opened().clone(await building)
        return ClonedDatabase(name, at(cast("str", self._url), name), schema)

    async def _prepared(self, url: str) -> None:
        if self._prepare is not None:
            # Off this loop: it may block, or bring an event loop of its own.
            await asyncio.to_thread(_call, self._prepare, url)

    async def _drop_soon(self, lent: ClonedDatabase) -> None:
        task = asyncio.ensure_future(self._opened().drop(lent.name))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    async def _close(self) -> None:
        clones = [task for ready in self._ready.values() for task in ready]
        lent = await asyncio.gather(*clones, return_exceptions=True)
        for one in lent:
            if isinstance(one, ClonedDatabase):
                await self._opened().drop(one.name)
        await asyncio.gather(*self._dropping, return_exceptions=True)
        await self._opened().close()


def _source(prepare: Prepare | None) -> str:
    """Where the function is written: two functions make two templates, one function in two processes makes one."""
    code = getattr(prepare, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else getattr(prepare, "__qualname__", "")


def _call(prepare: Prepare, url: str) -> None:
    answer = prepare(url)
    if inspect.isawaitable(answer):
        asyncio.run(_awaited(answer))


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


def start_embedded() -> embedded.Embedded:
    """The embedded server of all test runs of this user on this machine; it stops after the last of them."""
    boot = _BOOT.read_text().strip() if _BOOT.exists() else None
    folder = _cache() / f"postgres{_VERSION}-{(boot or 'durable')[:8]}"
    for old in folder.parent.glob(f"postgres{_VERSION}-*"):
        if boot is not None and old != folder:
            # Of an earlier boot: no server runs there any more, and files that were never synced may be broken.
            shutil.rmtree(home.find(old).path, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return embedded.start(folder, version=_VERSION, settings=_BASIC | (_HASTY if boot else {}))
    except MissingExtra as error:
        raise ConfigurationError(
            f"Tests need a PostgreSQL, and {error}. Or set {VARIABLE} to a server on which databases may be created."
        ) from error


def _cache() -> Path:
    """A folder of this user on this machine that outlives the run, so that the next one starts at once."""
    base = Path.home() / "Library/Caches" if sys.platform == "darwin" else Path.home() / ".cache"
    chosen = Path(os.environ.get("XDG_CACHE_HOME") or base) / "rowlock" / "testing" / os.uname().nodename
    try:
        chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        chosen = Path(tempfile.gettempdir()) / f"rowlock-testing-{os.getuid()}"
        chosen.mkdir(mode=0o700, exist_ok=True)
    return chosen
