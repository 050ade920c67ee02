"""A PostgreSQL of the torture's own: on loopback, every commit synced, and taken away at will."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from rowlock.store.embedded import binaries
from rowlock.store.embedded import home as homes
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from rowlock.store.embedded.home import Home

DATA: Final = Path(__file__).parent / ".data"
_DEBIAN: Final = Path("/usr/lib/postgresql")
_ROLE: Final = "rowlock"
_START: Final = 60.0
SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "hot_standby": "on",
}
"""Durability is left as it comes: fsync and synchronous_commit on."""


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """For preexec_fn: nothing that the torture starts outlives it. Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, number)


def _end_server_with_parent() -> None:
    end_with_parent(signal.SIGQUIT)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def programs(choice: str = "auto") -> Path:
    """The folder of PostgreSQL programs. auto: Debian's newest, or else the embedded package's."""
    if choice not in {"auto", "embedded"}:
        return Path(choice)
    found = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found and choice == "auto" else binaries.locate(18)


class Server:
    """One cluster; started, stopped at once, started again."""

    def __init__(self, home: Home, found: Path, url: str, port: int) -> None:
        self._home, self._programs, self._port = home, found, port
        self.url = url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        return self._port

    @property
    def folder(self) -> Path:
        """Of its log and its data."""
        return self._home.path

    def at(self, database: str, port: int | None = None) -> str:
        """The URL of one of its databases, through another port if given."""
        parts = urlsplit(self.url)
        netloc = parts.netloc if port is None else parts.netloc.replace(f":{self._port}", f":{port}")
        return urlunsplit(parts._replace(path=f"/{database}", netloc=netloc))

    @property
    def password(self) -> str:
        """Of its only role, which is called rowlock."""
        return urlsplit(self.url).password or ""

    def start(self, environment: Mapping[str, str] | None = None, /, **settings: str) -> None:
        """Start it and wait until it accepts connections. It ends with the thread that started it: use the main one."""
        options = {**SETTINGS, "port": str(self._port), "unix_socket_directories": "", **settings}
        words = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self._home.path / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(  # the main thread starts it and lives as long as the run
                [self._programs / "postgres", "-D", self._home.data, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**binaries.ENVIRONMENT, **(environment or {})},
                preexec_fn=_end_server_with_parent,  # noqa: PLW1509 - no other thread holds a lock that it needs
                **self._home.identity,
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START
        status = self._home.data / "postmaster.pid"
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, IndexError):
                if status.read_text().splitlines()[7].strip() == "ready":
                    return
            if self._process is not None and self._process.poll() is not None:
                break
            time.sleep(0.02)
        log = (self._home.path / "postgres.log").read_text(errors="replace")
        raise SystemExit(f"PostgreSQL did not start in {self._home.path}:\n{log[-2000:]}")

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it; at once and without a farewell unless told otherwise, as `pg_ctl stop -m immediate` does."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, program: str, *words: str | Path) -> None:
        """Run one of PostgreSQL's programs as the server's user."""
        done = subprocess.run(
            [self._programs / program, *words],
            env={**binaries.ENVIRONMENT, "PGPASSWORD": self.password},
            capture_output=True,
            text=True,
            check=False,
            **self._home.identity,
        )
        if done.returncode:
            raise SystemExit(f"{program} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def replica(self, name: str) -> Server:
        """A copy of this server that follows it; not started yet."""
        home = replace(self._home, path=self._home.path / name)
        home.path.mkdir(mode=0o711)
        port = free_port()
        copy = Server(home, self._programs, self.url.replace(f":{self._port}/", f":{port}/"), port)
        copy.run("pg_basebackup", "-D", home.private(home.data), "-R", "-X", "stream", "-c", "fast", "-d", self.url)
        return copy

    async def connect(self, database: str = "postgres", **settings: str) -> asyncpg.Connection[asyncpg.Record]:
        """A connection of the harness, past every proxy."""
        return await asyncpg.connect(
            self.at(database), timeout=10, server_settings={"application_name": "harness", **settings}
        )

    async def ask(self, database: str, sql: str, *values: object) -> Any:  # noqa: ANN401 - whatever the query returns
        """The first value of a query."""
        connection = await self.connect(database)
        try:
            return await connection.fetchval(sql, *values)
        finally:
            await connection.close(timeout=5)

    @contextlib.asynccontextmanager
    async def database(self, name: str) -> AsyncIterator[str]:
        """A new database with Rowlock's tables."""
        await self.ask("postgres", f'CREATE DATABASE "{name}"')
        await migrate.upgrade(self.at(name), "rowlock")
        try:
            yield self.at(name)
        finally:
            with contextlib.suppress(OSError, asyncpg.PostgresError):
                await self.ask("postgres", f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextlib.contextmanager
def postgres(choice: str = "auto", name: str = "postgres", **settings: str) -> Iterator[Server]:
    """A new server in a folder of its own, gone afterwards."""
    DATA.mkdir(mode=0o700, exist_ok=True)
    _clear()
    folder = DATA / f"{name}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    home = homes.find(folder)
    homes.prepare(home)
    server = _made(home, binaries.reachable(programs(choice), home))
    try:
        server.start(None, **settings)
        yield server
    finally:
        server.stop(signal.SIGINT)
        shutil.rmtree(home.path, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _made(home: Home, found: Path) -> Server:
    password, port = secrets.token_hex(12), free_port()
    server = Server(home, found, f"postgresql://{_ROLE}:{password}@127.0.0.1:{port}/{_ROLE}", port)
    given = home.private(home.path / "given") / "password"
    given.write_text(password)
    if home.user is not None:
        os.chown(given, home.user.pw_uid, home.user.pw_gid)
    words = ["--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", f"--pwfile={given}", "--no-sync"]
    home.private(home.data)
    server.run("initdb", "-D", home.data, "-U", _ROLE, *words)
    return server


def _clear() -> None:
    """Remove what a run left behind that was killed."""
    for folder in DATA.glob("*-*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            shutil.rmtree(homes.find(folder).path, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)


async def version(server: Server) -> str:
    """Of the running server."""
    return str(await server.ask("postgres", "SHOW server_version"))


__all__ = ["Server", "end_with_parent", "free_port", "postgres", "programs", "version"]
