"""A PgBouncer in transaction mode before a server that listens on TCP."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@contextlib.asynccontextmanager
async def pgbouncer(url: str, folder: Path, *, size: int = 4) -> AsyncIterator[str]:
    """The URL of the same database through a pooler with so many server connections. Skips where there is none."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("the program pgbouncer is not installed")
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listens = probe.getsockname()[1]
    settings = folder / "pgbouncer.ini"
    server = f"host={parts.hostname} port={parts.port} user={parts.username} password={parts.password}"
    settings.write_text(
        f"[databases]\n* = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {listens}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = {size}\nmax_client_conn = 200\n"
    )
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None  # it refuses to be root
    if user is not None:
        os.chown(settings, user, -1)
        for above in (folder, *folder.parents[:3]):
            above.chmod(above.stat().st_mode | 0o011)
    said = (folder / "pgbouncer.log").open("wb")
    process = subprocess.Popen(  # noqa: ASYNC220 - a moment
        [program, settings], stdin=subprocess.DEVNULL, stdout=said, stderr=said, user=user, extra_groups=[]
    )
    through = f"postgresql://{parts.username}@127.0.0.1:{listens}{parts.path}"

    async def answers() -> bool:
        assert process.poll() is None, (folder / "pgbouncer.log").read_text()
        with contextlib.suppress(OSError):
            connection = await asyncpg.connect(through, statement_cache_size=0)
            await connection.close()
            return True
        return False

    try:
        await eventually(answers, within=15)
        yield through
    finally:
        process.terminate()
        process.wait()
        said.close()
