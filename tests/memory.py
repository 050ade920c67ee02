"""Test databases in the machine's memory, where creating one takes a sixth of the time that it takes on a disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from tests.databases import at

from rowlock.store.embedded import keeper

if TYPE_CHECKING:
    from rowlock.store.embedded import Embedded

MEMORY = Path("/dev/shm")  # noqa: S108 - each folder in it is closed to other users
ROOM = 4_000_000_000  # bytes: what whole runs have used, several times over
PREFIX = "rowlock-tests-"


def keep_databases_in_memory(server: Embedded) -> Path | None:
    """Let every database of this server that comes lie in memory; returns the folder, None: there is no room.

    PostgreSQL creates a database where its template lies, hence the two templates move. WAL stays on the disk.
    """
    folder = MEMORY / f"{PREFIX}{server.directory.name}"
    if folder.exists() and server.started:
        shutil.rmtree(folder)  # left by a killed run of the same name
    if folder.exists():
        return folder
    _remove_what_killed_runs_left()
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    data = (server.directory / "data").stat()
    folder.mkdir(mode=0o711)
    (folder / "server").write_text(str(server.directory))
    (folder / "databases").mkdir(mode=0o700)
    os.chown(folder / "databases", data.st_uid, data.st_gid)
    with psycopg.connect(at(server.url, "postgres"), autocommit=True) as administrator:
        administrator.execute(f"CREATE TABLESPACE memory LOCATION '{folder / 'databases'}'")
        for template in ("template0", "template1"):
            administrator.execute(f"ALTER DATABASE {template} SET TABLESPACE memory")
    return folder


def _remove_what_killed_runs_left() -> None:
    for folder in MEMORY.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's folder, or one that is just being made or removed
            home = Path((folder / "server").read_text())
            if home.exists():
                os.close(keeper.lock(home / "keeper.lock", fcntl.LOCK_EX | fcntl.LOCK_NB))  # refused: the server runs
            shutil.rmtree(folder)
