"""PostgreSQL servers of a test's own that listen on TCP: with passwords, certificates, or a standby beside them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from tests.databases import chosen_server
from tests.host_processes import free_port
from tests.waiting import PATIENCE

from rowlock.store.embedded import binaries, home

if TYPE_CHECKING:
    import pwd
    from collections.abc import Iterator, Mapping

HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 trust\n"
PASSWORD = "first"  # noqa: S105 - of servers that live for a test


@dataclass
class TcpServer:
    """One server; `rowlock` is its superuser and its database."""

    folder: Path
    programs: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, password: str | None = PASSWORD, host: str = "127.0.0.1") -> str:
        secret = "" if password is None else f":{password}"
        return f"postgresql://rowlock{secret}@{host}:{self.port}/rowlock"

    def run(self, program: str, *words: object) -> None:
        done = subprocess.run(
            [str(self.programs / program), *map(str, words)],
            env=binaries.ENVIRONMENT,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE,
            **identity(),
        )
        assert done.returncode == 0, done.stdout + self.log()

    def log(self) -> str:
        written = self.folder / "log"
        return written.read_text() if written.exists() else ""

    def create(self, hba: str = HBA) -> None:
        self.run("initdb", "-D", self.data, "-U", "rowlock", "--no-locale", "--encoding=UTF8", "--no-sync")
        self.write("data/pg_hba.conf", hba)
        self.start()
        with self.session("postgres") as session:
            session.execute("CREATE DATABASE rowlock")
            session.execute(f"ALTER ROLE rowlock PASSWORD '{PASSWORD}'")

    def write(self, name: str, text: str | bytes) -> Path:
        """A file that the server can read and others cannot."""
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(0o600)
        if (owner := user()) is not None:
            os.chown(path, owner.pw_uid, owner.pw_gid)
        return path

    @contextlib.contextmanager
    def session(self, database: str = "rowlock") -> Iterator[psycopg.Connection[Any]]:
        """The administrator, over the socket."""
        url = f"postgresql://rowlock@/{database}?host={self.folder}&port={self.port}"
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection

    def start(self) -> None:
        own = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.folder)}
        quick = {"fsync": "off", "max_connections": "100", "wal_level": "replica"}
        options = " ".join(f"-c {name}={value}" for name, value in {**quick, **self.settings, **own}.items())
        self.run("pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", self.folder / "log", "-o", options, "start")

    def stop(self) -> None:
        """At once, as a crash."""
        self.run("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")

    def promote(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-w", "promote")


def user() -> pwd.struct_passwd | None:
    """Who runs the servers: PostgreSQL refuses root."""
    return home.find(Path("tests")).user


def identity() -> dict[str, Any]:
    owner = user()
    return {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def places() -> Iterator[Path]:
    """A short folder, since sockets are in it, that the servers' user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="rl-", dir="/tmp"))
    if (owner := user()) is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def tcp_server(hba: str = HBA, programs: Path | None = None) -> Iterator[TcpServer]:
    """A new server, which runs. programs: their folder, if not that of the other tests."""
    chosen = chosen_server()
    found = programs or chosen.get("binaries") or binaries.locate(chosen["version"])
    with places() as folder:
        made = TcpServer(folder, binaries.reachable(found, home.find(folder / "home")))
        made.create(hba)
        try:
            yield made
        finally:
            with contextlib.suppress(AssertionError):
                made.stop()


@contextlib.contextmanager
def standby_of(primary: TcpServer) -> Iterator[TcpServer]:
    """A streaming replica, which runs."""
    with places() as folder:
        made = TcpServer(folder, primary.programs, primary.settings)
        source = ("-h", "127.0.0.1", "-p", primary.port, "-U", "rowlock")
        made.run("pg_basebackup", "-D", made.data, *source, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        made.start()
        try:
            yield made
        finally:
            with contextlib.suppress(AssertionError):
                made.stop()
