"""The folder of an embedded server: its owner, its socket, and the errors of its programs in plain words.

An ordinary user's server lives in the folder asked for. PostgreSQL refuses to run as root, so root's server runs as
another user, who often cannot even enter the folder asked for (`/root` is closed); opening parents is out of the
question. It therefore lives in /var/lib/rowlock/<hash of the folder>. A user namespace would keep it in place, but
containers forbid those by default, and they are where root is most common; changing the user works in both.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import pwd
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rowlock.errors import EmbeddedError
from rowlock.store.embedded.keeper import PORT

ROOT_HOMES = Path("/var/lib/rowlock")
SERVER_USERS = ("rowlock", "postgres", "nobody")  # who runs root's new server: the first that exists
SHARED_USER = "nobody"  # runs other programs, too, which could read the server's files
SOCKET_LIMIT = 103  # bytes of a socket's path: 107 on Linux, 103 on macOS
DISK_FULL = ("No space left on device", "Disk quota exceeded", "Check free disk space")
INSTEAD = "Choose another folder, or set ROWLOCK_DATABASE_URL to use a PostgreSQL of yours."


@dataclass(frozen=True)
class Home:
    """The folder of one embedded server. user: runs the server on behalf of root; None: not root."""

    requested: Path
    path: Path
    user: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.path / "data"

    @property
    def identity(self) -> dict[str, Any]:
        """Arguments of subprocess that make a process run as the server's user."""
        if self.user is None:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": [], "cwd": "/"}

    @property
    def is_shared(self) -> bool:
        """Whether the server's user runs programs of others, too."""
        return self.user is not None and self.user.pw_name == SHARED_USER

    def private(self, folder: Path) -> Path:
        """Make folder for the server's user alone."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.user is not None:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        return folder


def find(directory: Path) -> Home:
    """The home for the requested folder."""
    requested = directory.resolve()
    if os.geteuid() != 0:
        return Home(requested, requested, None)
    home = Home(requested, ROOT_HOMES / hashlib.sha256(os.fsencode(requested)).hexdigest()[:16], None)
    with contextlib.suppress(OSError, KeyError):
        # A user that was added later cannot read the files of a server that was there before.
        if (owner := home.data.stat().st_uid) != 0:
            return replace(home, user=pwd.getpwuid(owner))
    for name in SERVER_USERS:
        with contextlib.suppress(KeyError):
            return replace(home, user=pwd.getpwnam(name))
    names = ", ".join(SERVER_USERS)
    raise EmbeddedError(f"PostgreSQL does not run as root, and none of the users {names} exists to run it. {INSTEAD}")


def prepare(home: Home) -> None:
    """Create the home, readable by its owner alone; refuse one that others could write to."""
    mode = 0o700
    if home.user is not None:
        mode = 0o711  # the server's user passes through; everything inside is 0700 or 0600
        if not ROOT_HOMES.exists():
            ROOT_HOMES.mkdir(mode, parents=True, exist_ok=True)
            ROOT_HOMES.chmod(0o755)
    if not home.path.exists():
        home.path.mkdir(mode, parents=True, exist_ok=True)
        home.path.chmod(mode)
    found = home.path.stat()
    if found.st_uid != os.geteuid():
        raise EmbeddedError(f"{home.path} belongs to user {found.st_uid}, not to you ({os.geteuid()}). {INSTEAD}")
    if found.st_mode & 0o022:
        raise EmbeddedError(
            f"Others may write to {home.path} (mode {stat.S_IMODE(found.st_mode):o}): chmod 700 it first."
        )
    if home.user is not None:
        (home.path / "origin").write_text(f"{home.requested}\n")
    else:
        with contextlib.suppress(OSError):  # a full disk is reported by the server's own files
            (home.path / ".gitignore").write_text("*\n")  # a database is never meant to be committed


def sockets(home: Home) -> Path:
    """The folder of the server's socket; stays the same while the server runs."""
    inside = home.path / "run"
    if _usable(inside):
        return home.private(inside)
    note = home.path / "sockets"
    if note.exists() and _is_mine(remembered := Path(note.read_text())):
        return remembered
    temporary = next(base for base in (Path(tempfile.gettempdir()), Path("/tmp")) if _usable(base / "rowlock-12345678"))  # noqa: S108 - mkdtemp makes it private
    made = Path(tempfile.mkdtemp(prefix="rowlock-", dir=temporary))
    note.write_text(str(made))
    return made


def _usable(folder: Path) -> bool:
    """Whether a socket's path fits, and needs no quoting in a URL or in PostgreSQL's list of folders."""
    path = str(folder / f".s.PGSQL.{PORT}")
    return len(os.fsencode(path)) <= SOCKET_LIMIT and re.fullmatch(r"[A-Za-z0-9_./-]+", path) is not None


def _is_mine(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def failure(home: Home, what: str, output: str) -> EmbeddedError:
    """The error for a PostgreSQL program that failed, from what it printed."""
    if any(sign in output for sign in DISK_FULL):
        return disk_full(home)
    lines = [line for line in output.splitlines() if re.search("FATAL|PANIC|error|HINT|DETAIL|refused|not", line)]
    return EmbeddedError(f"{what} in {home.path} failed: {' / '.join(lines[-4:]) or output[-500:]} {INSTEAD}")


def refused(home: Home, error: OSError) -> EmbeddedError:
    """The error for a folder that cannot be written to."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(home)
    where = error.filename or home.path
    return EmbeddedError(f"The embedded PostgreSQL needs to write to {where}: {error.strerror or error}. {INSTEAD}")


def disk_full(home: Home) -> EmbeddedError:
    """The error for a full disk: names the folder and what is left."""
    there = next(path for path in (home.path, *home.path.parents) if path.exists())
    free = shutil.disk_usage(there).free / 1e6
    return EmbeddedError(
        f"The disk of {home.path} is full ({free:.0f} MB free; a new server needs 60 MB). Free some space. {INSTEAD}"
    )
