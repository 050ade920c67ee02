"""A PostgreSQL server without set-up, for development: lives in a folder, shared by processes, stops with the last.

start() joins or starts it; keeper.py is the parent process of the server; home.py is the folder; binaries.py finds the
programs. Imported only where no database URL is set. Start with start().
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from rowlock.errors import EmbeddedError
from rowlock.store.embedded import binaries as programs
from rowlock.store.embedded import home as homes
from rowlock.store.embedded import keeper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from rowlock.store.embedded.home import Home

__all__ = ["Embedded", "start"]

ROLE: Final = "rowlock"  # role, database and identity map carry the same name
DEFAULTS: Final = {
    "listen_addresses": "",  # no TCP
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class Embedded:
    """One process's hold on a running server, which stops about a second after the last hold is gone."""

    def __init__(self, url: str, home: Home, hold: int, *, started: bool) -> None:
        self.url = url
        self.directory = home.path
        self.started = started
        self._home = home
        self._hold: int | None = hold

    @property
    def warning(self) -> str | None:
        """What root should know of the user that runs a server that this call started; None: nothing."""
        if not self.started or not self._home.is_shared:
            return None
        return (
            f"the embedded PostgreSQL runs as the user {homes.SHARED_USER}, whose other processes could read its data; "
            f"give it a user of its own: useradd --system rowlock && chown -R rowlock {self._home.data}"
        )

    def close(self) -> None:
        """Release the hold; a second call does nothing."""
        hold, self._hold = self._hold, None
        if hold is not None:
            os.close(hold)  # not LOCK_UN: a forked child that shares the descriptor is a user of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start(
    directory: Path | None = None,
    *,
    version: int = 18,
    settings: Mapping[str, str] = MappingProxyType({}),
    binaries: Path | None = None,
) -> Embedded:
    """Join the server in directory (default ./.rowlock), starting it if it does not run; blocks until it is ready.

    version: 16 or 18; binaries: a folder of other PostgreSQL programs; settings: used if this call starts the server.
    """
    home = homes.find(directory or Path(".rowlock"))
    found = binaries or programs.locate(version)
    wanted = version if binaries is None else programs.major(found)
    try:
        homes.prepare(home)
        starting = _queue(home)
        try:
            hold = keeper.lock(home.path / "users.lock", fcntl.LOCK_SH)  # waits while a keeper is stopping
            try:
                return _join(home, found, wanted, settings, hold)
            except BaseException:
                os.close(hold)
                raise
        finally:
            os.close(starting)
    except OSError as error:
        raise homes.refused(home, error) from error


def _queue(home: Home) -> int:
    """Wait for start.lock, so that one process starts the server and the others find it running."""
    deadline = time.monotonic() + keeper.START_LIMIT
    while True:
        try:
            return keeper.lock(home.path / "start.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"Another process has been starting the server in {home.path} for {keeper.START_LIMIT:.0f} s; "
                    f"see {home.path / 'postgres.log'}."
                ) from None
        time.sleep(0.02)


def _join(home: Home, found: Path, wanted: int, settings: Mapping[str, str], hold: int) -> Embedded:
    _check_version(home, wanted)
    sockets = homes.sockets(home)
    url = f"postgresql://{ROLE}@/{ROLE}?host={quote(str(sockets))}&port={keeper.PORT}"
    deadline = time.monotonic() + keeper.START_LIMIT
    while _is_kept(home):
        if keeper.is_ready(home.data, sockets):
            return Embedded(url, home, hold, started=False)
        if time.monotonic() > deadline:
            raise EmbeddedError(
                f"The server in {home.path} is not ready after {keeper.START_LIMIT:.0f} s; "
                f"see {home.path / 'postgres.log'}."
            )
        time.sleep(0.02)
    found = programs.reachable(found, home)
    if not home.data.exists():
        _create(home, found, settings)
    _launch(home, found, sockets, settings)
    return Embedded(url, home, hold, started=True)


def _check_version(home: Home, wanted: int) -> None:
    mark = home.data / "PG_VERSION"
    if mark.exists() and (made := mark.read_text().strip()) != str(wanted):
        raise EmbeddedError(
            f"{home.data} was made by PostgreSQL {made}; PostgreSQL {wanted} was asked for and cannot read it. "
            f"Ask for version {made}, or dump the data, move the folder away and load the dump into a new one."
        )


def _is_kept(home: Home) -> bool:
    try:
        os.close(keeper.lock(home.path / "keeper.lock", fcntl.LOCK_EX | fcntl.LOCK_NB))
    except BlockingIOError:
        return True
    return False


def _create(home: Home, found: Path, settings: Mapping[str, str]) -> None:
    """Create the data directory under another name and rename it, so that it is never there half made."""
    scratch = home.path / "data.new"
    if scratch.exists():
        shutil.rmtree(scratch)
    home.private(scratch)
    durable = [] if settings.get("fsync") != "off" else ["--no-sync"]
    initdb: list[str | Path] = [found / "initdb", "-D", scratch, "-U", ROLE, "--encoding=UTF8", "--no-locale", *durable]
    _run(home, [*initdb, "--auth-local=peer", "--auth-host=reject"], "")
    unsynced = [] if not durable else ["-c", "fsync=off"]
    _run(home, [found / "postgres", "--single", *unsynced, "-D", scratch, "postgres"], f"CREATE DATABASE {ROLE}\n")
    scratch.rename(home.data)


def _run(home: Home, command: list[str | Path], text: str) -> None:
    answer = subprocess.run(  # noqa: S603 - our own programs and arguments
        command,
        input=text,
        env=programs.ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **home.identity,
    )
    if answer.returncode != 0 or "ERROR" in answer.stdout:
        raise homes.failure(home, "Creating a database", answer.stdout)


def _launch(home: Home, found: Path, sockets: Path, settings: Mapping[str, str]) -> None:
    # Outside of data, which belongs to the server's user: there a symlink could redirect what root writes.
    access, identities = home.path / "pg_hba.conf", home.path / "pg_ident.conf"
    access.write_text(f"local all all peer map={ROLE}\n")
    identities.write_text(f'{ROLE} "{pwd.getpwuid(os.geteuid()).pw_name}" {ROLE}\n')
    options = {**DEFAULTS, **settings}
    options |= {"hba_file": str(access), "ident_file": str(identities)}
    options |= {"unix_socket_directories": str(sockets), "port": str(keeper.PORT)}
    for path in (access, identities):
        path.chmod(0o644 if home.user is not None else 0o600)
    plan = {
        "home": str(home.path),
        "data": str(home.data),
        "sockets": str(sockets),
        "postgres": str(found / "postgres"),
        "options": [part for name, value in options.items() for part in ("-c", f"{name}={value}")],
        "uid": None if home.user is None else home.user.pw_uid,
        "gid": None if home.user is None else home.user.pw_gid,
    }
    answer = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-I", "-S", keeper.__file__],
        input=json.dumps(plan),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        start_new_session=True,
    )
    if answer.returncode != 0 or answer.stdout:
        raise homes.failure(home, "Starting the server", answer.stdout)
