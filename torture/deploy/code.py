"""Code that is not this one: of an earlier commit, or a copy of this with one more step of the schema."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import rowlock
from torture.stage import ROOT

_STEPS: Final = "src/rowlock/store/migrations"
_PACKAGE: Final = "src/rowlock"
GIT: Final = shutil.which("git") or ""
_PRESENT: Final = Path(rowlock.__file__).parent
FITS: Final = """\
-- For code made for version {before} or later.
ALTER TABLE {{schema}}.jobs ADD COLUMN remark_{version} text NOT NULL DEFAULT 'none';
CREATE TABLE {{schema}}.remarks (job_id bigint PRIMARY KEY, remark text NOT NULL);
-- Made again as it is, under those who call it.
DO $$ BEGIN EXECUTE pg_get_functiondef('{{schema}}.gate_leave'::regproc); END $$;
"""
BREAKS: Final = """\
-- For code made for version {version} or later.
ALTER TABLE {{schema}}.jobs ADD COLUMN remark_{version} text NOT NULL DEFAULT 'none';
"""
_DOWN: Final = """\
DROP TABLE IF EXISTS {{schema}}.remarks;
ALTER TABLE {{schema}}.jobs DROP COLUMN remark_{version};
"""


class NoHistory(Exception):
    """The checkout does not reach back far enough."""


@dataclass(frozen=True, slots=True)
class Code:
    """Where a package lies. path: what is put into PYTHONPATH; version: of the schema it was made for."""

    path: Path
    version: int

    @property
    def environment(self) -> dict[str, Any]:
        """What makes a process run it."""
        return {"PYTHONPATH": str(self.path)}


def present(version: int) -> Code:
    """The one that this process runs."""
    return Code(_PRESENT.parent, version)


def last_of(version: int) -> str:
    """The last commit of this history whose newest step is that one."""
    newer = _first_beyond(version)
    if not newer:
        raise NoHistory(f"no commit here adds a step after {version}: a source archive, or a clone without its history")
    try:
        commit = _git("rev-parse", "--verify", f"{newer}^1").strip()
        names = _git("ls-tree", "--name-only", commit, f"{_STEPS}/").split()
    except NoHistory:
        raise NoHistory(f"the history ends with a commit that has steps after {version}: a shallow clone") from None
    newest = max(map(_number, names), default=0)
    if newest != version:
        raise NoHistory(f"the newest step before those after {version} came is {newest}")
    return commit


def _first_beyond(version: int) -> str:
    """The first commit that adds a step after that one; empty: none does."""
    words = (
        "log",
        "--first-parent",
        "-m",
        "--reverse",
        "--diff-filter=A",
        "--format=@%H",
        "--name-only",
        "HEAD",
        "--",
        _STEPS,
    )
    commit = ""
    for line in filter(None, _git(*words).splitlines()):
        if line.startswith("@"):
            commit = line[1:]
        elif _number(line) > version:
            return commit
    return ""


def _number(path: str) -> int:
    """Of the step in that file."""
    return int(path.rpartition("/")[2][:4]) if path.endswith(".up.sql") else 0


def earlier(version: int, folder: Path) -> Code:
    """The code of the last commit whose newest step is that one, in a folder of its own."""
    commit = last_of(version)
    done = subprocess.run([GIT, "archive", "--format=tar", commit, _PACKAGE], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Code(folder / "src", version)


def with_step(folder: Path, version: int, up: str) -> Code:
    """A copy of this code whose schema has one more step, of that version."""
    shutil.copytree(_PRESENT, folder / _PACKAGE)  # with what Python has compiled of it: starts are many
    steps = folder / _STEPS
    (steps / f"{version:04}_remarks.up.sql").write_text(up.format(before=version - 1, version=version))
    (steps / f"{version:04}_remarks.down.sql").write_text(_DOWN.format(version=version))
    return Code(folder / "src", version)


def _git(*words: str) -> str:
    if not GIT:
        raise NoHistory("git is not installed")
    try:
        return subprocess.run([GIT, *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except subprocess.CalledProcessError as error:
        raise NoHistory(f"git {words[0]} says: {error.stderr.strip()[:200]}") from None
