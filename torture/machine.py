"""Nemeses that need a program or a right of the machine: PgBouncer, a second server, a small disk, another clock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg
from typing_extensions import override

from torture.network import Proxied
from torture.scenario import Scenario
from torture.server import end_with_parent, free_port
from torture.stage import STALE, TROUBLE, eventually

if TYPE_CHECKING:
    from torture.server import Server
    from torture.stage import Stage

_FAKETIME: Final = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
_SMALL_DISK: Final = 40
"""Megabytes."""


class Pooled(Scenario):
    """Everything goes through PgBouncer in transaction mode with two connections; PgBouncer itself dies, too."""

    name = "pgbouncer"
    does = "through PgBouncer in transaction mode with a pool of 2, which is killed every 3 s"
    bound = STALE + 8
    why = "as after an outage"
    needs = "pgbouncer"

    _process: subprocess.Popen[bytes] | None = None

    @override
    async def set_up(self, stage: Stage) -> None:
        self._port = free_port()
        self._folder = stage.folder / "pgbouncer"
        self._folder.mkdir()
        self._start(stage)
        stage.environment |= {"ROWLOCK_POOLED": "on", "ROWLOCK_DIRECT_URL": stage.server.at(stage.database)}
        for _ in range(2):
            stage.worker(port=self._port)
        await stage.up(2)
        stage.producer(self.rate, port=self._port)

    def _start(self, stage: Stage) -> None:
        users = self._folder / "users.txt"
        users.write_text(f'"rowlock" "{stage.server.password}"\n')
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={stage.server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self._port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {users}\n"
            "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n"
        )
        user = None
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            stage.folder.chmod(0o711)
            for path in (self._folder, users, settings):
                os.chown(path, user.pw_uid, user.pw_gid)
        self._process = subprocess.Popen(
            ["pgbouncer", "-q", settings],  # noqa: S607 - where the machine has it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user and user.pw_uid,
            group=user and user.pw_gid,
            extra_groups=[] if user else None,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - no other thread holds a lock that it needs
        )

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(stage.random.uniform(1.5, 3.5))
            self._stop()
            await asyncio.sleep(stage.random.uniform(0.2, 0.8))
            self._start(stage)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @override
    async def tear_down(self, stage: Stage) -> None:
        del stage
        self._stop()

    _port: int
    _folder: Path


class Failover(Proxied):
    """The server dies and its replica, which had confirmed every commit, takes its place."""

    name = "failover"
    does = "the server dies; its synchronous replica is promoted and takes its place"
    bound = STALE + 8
    why = "as after an outage"
    seconds = (2.0, 2.0)

    _standby: Server
    _primary: Server

    @override
    async def set_up(self, stage: Stage) -> None:
        self._primary = stage.server
        self._standby = await asyncio.to_thread(stage.server.replica, f"replica-{time.monotonic_ns()}")
        self._standby.start()
        stage.server.stop(signal.SIGINT)
        stage.server.start(synchronous_standby_names="*")
        await eventually(
            lambda: stage.ask("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"), "replica", 30
        )
        await super().set_up(stage)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await stage.busy()
        for proxy in self.proxies:
            proxy.passable.clear()  # nobody reaches either while the address moves
        stage.server.stop()
        await asyncio.sleep(seconds)
        await self._standby.ask("postgres", "SELECT pg_promote(true, 30)")
        for proxy in self.proxies:
            proxy.target = self._standby.port
            proxy.reset_all()
            proxy.passable.set()
        stage.server = self._standby

    @override
    async def tear_down(self, stage: Stage) -> None:
        stage.server = self._primary
        self._standby.stop()
        self._primary.stop()
        self._primary.start()


class DiskFull(Scenario):
    """The disk of the tables is full; then there is room again."""

    name = "disk-full"
    does = f"the tablespace, a file system of {_SMALL_DISK} MB, is full"
    bound = 10.0
    why = "outcomes are kept and written again every 2 s"
    needs = "mount"

    @override
    async def set_up(self, stage: Stage) -> None:
        self._mount = stage.server.folder / f"disk-{time.monotonic_ns()}"
        self._mount.mkdir(mode=0o755)
        await _command("mount", "-t", "tmpfs", "-o", f"size={_SMALL_DISK}M,mode=0700", "tmpfs", str(self._mount))
        home = stage.server.folder.stat() if os.geteuid() else (stage.server.folder / "data").stat()
        os.chown(self._mount, home.st_uid, home.st_gid)
        connection = await stage.server.connect()
        await connection.execute(f"CREATE TABLESPACE small LOCATION '{self._mount}'")
        await connection.execute(f'ALTER DATABASE "{stage.database}" SET TABLESPACE small')
        await connection.close()
        await super().set_up(stage)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        connection = await stage.server.connect(stage.database)
        await connection.execute("CREATE TABLE public.filler (filling text)")
        until = time.monotonic() + seconds
        refused = 0
        while time.monotonic() < until:
            for rows in (2000, 100, 5):
                with contextlib.suppress(asyncpg.DiskFullError):
                    while True:
                        await connection.execute(
                            "INSERT INTO public.filler SELECT repeat(md5(n::text), 60)"
                            " FROM generate_series(1, $1::int) n",
                            rows,
                        )
                refused += 1
            await asyncio.sleep(0.1)
        await connection.execute("DROP TABLE public.filler")
        await connection.execute("CHECKPOINT")  # only then is its space given back
        await connection.close()
        stage.notes["refused"] = float(refused)

    @override
    async def tear_down(self, stage: Stage) -> None:
        for process in stage.processes:
            await process.end(0)
        with contextlib.suppress(*TROUBLE):
            await stage.server.ask("postgres", f'DROP DATABASE IF EXISTS "{stage.database}" WITH (FORCE)')
            await stage.server.ask("postgres", "DROP TABLESPACE IF EXISTS small")
        with contextlib.suppress(AttributeError):
            await _command("umount", "-l", str(self._mount))

    _mount: Path


class Clocks(Scenario):
    """Workers and producers whose clocks are an hour off, in both directions."""

    name = "clocks"
    does = "one worker's clock an hour ahead, the other's and the producer's an hour behind (libfaketime)"
    bound = 3.0
    why = "only the database's clock decides"
    needs = "faketime"

    @override
    async def set_up(self, stage: Stage) -> None:
        stage.environment |= {"LD_PRELOAD": str(_FAKETIME[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        stage.worker(FAKETIME="+3600s")
        stage.worker(FAKETIME="-3600s")
        await stage.up(2)
        stage.producer(self.rate, FAKETIME="-3600s")

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        del stage
        await asyncio.sleep(seconds)


async def _command(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {said.decode()}")


SCENARIOS = (Pooled, Failover, DiskFull, Clocks)
