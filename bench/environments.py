"""One virtual environment per peer under bench/.envs, never the project's own; made once and kept."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.roster import Subject

FOLDER: Final = Path(__file__).parent / ".envs"
_PATIENCE: Final = 600
"""Seconds for one installation."""
_VERSIONS: Final = """
import importlib.metadata as m, json, sys
found = {d.metadata["Name"].lower(): d.version for d in m.distributions()}
print(json.dumps(found | {"python": sys.version.split()[0]}))
"""


class CannotInstall(Exception):
    """Why a peer is missing from the table."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python that can import one system."""

    python: str
    versions: dict[str, str]
    """Of every distribution in it, and of `python`."""

    def version_of(self, subject: Subject) -> str:
        """The versions of what was asked for, the system itself first."""
        names = [requirement.split("[")[0].split("=")[0] for requirement in subject.requirements] or [subject.name]
        known = [f"{name} {self.versions[name]}" for name in names if name in self.versions]
        return ", ".join(known)


def prepare(subject: Subject, pythons: dict[str, str]) -> Environment:
    """The subject's environment, made if it is not there. pythons: version to interpreter, from the command line."""
    if not subject.is_peer:
        return _read(sys.executable)
    base = _interpreter(subject.python, pythons)
    identity = hashlib.sha256(f"{base} {subject.requirements}".encode()).hexdigest()[:8]
    folder = FOLDER / f"{subject.name}-{identity}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        _install(folder, base, subject.requirements)
        (folder / "complete").touch()
    return _read(str(python))


def _interpreter(version: str | None, pythons: dict[str, str]) -> str:
    """An interpreter that really starts: a name on the PATH may be a stand-in for one that is not there."""
    if version is None:
        return sys.executable
    given = pythons.get(version)
    candidates = [given] if given else [f"python{version}"]
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is not None and _run([path, "-c", "pass"]).returncode == 0:
            return path
    raise CannotInstall(
        f"needs Python {version}, and {candidates[0]} cannot be started; name one with --python{version}"
    )


def _install(folder: Path, base: str, requirements: tuple[str, ...]) -> None:
    uv = shutil.which("uv")
    if uv is not None:
        steps = [
            [uv, "venv", "--quiet", "--no-project", "--python", base, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *requirements],
        ]
    else:
        steps = [
            [base, "-m", "venv", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements],
        ]
    for step in steps:
        answer = _run(step)
        if answer.returncode != 0:
            lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
            raise CannotInstall(f"cannot be installed: {' / '.join(lines[-3:])[:300]}")


def _read(python: str) -> Environment:
    answer = _run([python, "-c", _VERSIONS])
    if answer.returncode != 0:
        raise CannotInstall(f"its environment does not start: {answer.stderr.strip()[-300:]}")
    return Environment(python, json.loads(answer.stdout))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"cannot be installed: {command[0]} took more than {_PATIENCE} s") from None
