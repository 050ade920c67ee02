"""The servers of one run: a PostgreSQL that syncs every commit, a Redis where one is installed. Both end with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from bench.machine import processor_time
from rowlock.store import embedded
from rowlock.store.embedded import home as homes
from rowlock.store.embedded import keeper

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA: Final = Path(__file__).parent / ".data"
"""Not the folder of temporary files, which may live in memory and sync in no time."""
_DEBIAN: Final = Path("/usr/lib/postgresql")
SETTINGS: Final = {"shared_buffers": "1GB", "max_connections": "200", "max_wal_size": "4GB"}
"""Durability is left as it comes: fsync and synchronous_commit on."""
STATEMENTS: Final = {"shared_preload_libraries": "pg_stat_statements"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running PostgreSQL."""

    url: str
    directory: Path
    version: str
    counts_statements: bool
    """Whether pg_stat_statements is there; the embedded package comes without it."""

    def at(self, database: str) -> str:
        """The URL of one of its databases."""
        return self.url.replace("/rowlock?", f"/{database}?")

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection that commits by itself."""
        return psycopg.connect(self.at(database), autocommit=True)

    def processor_time(self) -> float:
        """Core-seconds of all its processes, the ended ones included."""
        pid = int((self.directory / "data" / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return processor_time(pid, reaped=True) + sum(processor_time(int(child)) for child in children)


def programs(choice: str) -> Path | None:
    """The folder of PostgreSQL programs; None: the embedded package. auto: Debian's newest, which counts statements."""
    if choice == "embedded":
        return None
    if choice != "auto":
        return Path(choice)
    found = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    counting = [path.parent for path in found if _counts(path.parent)]
    return counting[-1] if counting else None


def _counts(binaries: Path) -> bool:
    return (binaries.parent / "lib" / "pg_stat_statements.so").exists()


@contextlib.contextmanager
def postgres(choice: str = "auto", name: str = "postgres") -> Iterator[Server]:
    """A new server in a folder of its own, gone afterwards."""
    binaries = programs(choice)
    counts = binaries is not None and _counts(binaries)
    DATA.mkdir(mode=0o700, exist_ok=True)
    _clear()
    folder = DATA / f"{name}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    held = embedded.start(folder, binaries=binaries, settings=SETTINGS | (STATEMENTS if counts else {}))
    try:
        with psycopg.connect(held.url, autocommit=True) as connection:
            (version,) = connection.execute("SHOW server_version").fetchone() or ("?",)
        server = Server(held.url, held.directory, str(version), counts)
        if counts:
            with server.connect() as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements")
        yield server
    finally:
        held.close()
        os.close(keeper.lock(held.directory / "keeper.lock", fcntl.LOCK_EX))  # waits for the server's end
        shutil.rmtree(held.directory, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _clear() -> None:
    """Remove what a run left behind that was killed."""
    for folder in DATA.glob("*-*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            shutil.rmtree(homes.find(folder).path, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def redis() -> Iterator[tuple[int, int]]:
    """Port and process id of a Redis with its default persistence; (0, 0) when none is installed."""
    program = shutil.which("redis-server")
    if program is None:
        yield 0, 0
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = DATA / f"redis-{os.getpid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)


def describe(server: Server) -> str:
    """One line for the report."""
    programs_of = "with pg_stat_statements" if server.counts_statements else "without pg_stat_statements"
    return f"PostgreSQL {server.version} {programs_of}, fsync and synchronous_commit on, unix socket"


__all__ = ["Server", "describe", "postgres", "programs", "redis"]
