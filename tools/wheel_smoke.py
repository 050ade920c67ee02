"""Build the wheel and try it as a user would: installed into a fresh environment of every Python on this machine.

    python tools/wheel_smoke.py [--uv PATH] [3.11 3.13 …]     only these versions

Each environment runs `rowlock --version`, imports the package, enqueues and works off a job on the embedded server, and
finds the dashboard.

With the newest Python each extra of pyproject.toml is then installed alone, into an environment of its own, and used;
where it is not installed, Rowlock must say the line that installs it. tools/wheel_extras.py says how.
Exit code 1: a version or an extra failed, or no Python was found.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wheel_extras import MISSING, MISSING_BESIDE, NOT_MISSED, USES

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
OLDEST: Final = 11
NEWEST: Final = 14
TRIAL: Final = """
import asyncio, sys, rowlock
from rowlock import Rowlock

assert "site-packages" in rowlock.__file__, rowlock.__file__
app = Rowlock()

@app.job
async def add(a: int, b: int) -> int:
    return a + b

async def main() -> None:
    async with app, app.worker():
        handle = await add.enqueue(a=1, b=2)
        assert await handle.wait(timeout=60) == 3

    from pathlib import Path
    page = Path(rowlock.__file__).with_name("ui_dist") / "index.html"
    assert "<script" in page.read_text(), page

if __name__ == "__main__":
    asyncio.run(main())
"""

_ENDING: Final = """
import contextlib, io, json
from rowlock import ConfigurationError

def said(source):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(source, {{"__name__": "__main__"}})
        except (ConfigurationError, SystemExit) as error:
            print(error)
    return printed.getvalue()

print(json.dumps([said(source) for source in {sources!r}]))
"""
"""Prints what each of several programs prints, and the error that ends it. One process for all: imports cost time."""


def run(*command: str | Path, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Run a command to its end; returns what it printed."""
    done = subprocess.run(  # noqa: S603 - commands of this file
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        message = f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        raise SystemExit(message)
    return done.stdout


def interpreters(wanted: list[str]) -> dict[str, Path]:
    """An interpreter for each version: from the PATH, or installed by pyenv."""
    found: dict[str, Path] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in wanted or [f"3.{minor}" for minor in range(OLDEST, NEWEST + 1)]:
        on_path = shutil.which(f"python{version}")
        places = [Path(on_path)] if on_path else []
        for place in [*places, *sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))]:
            # A shim of pyenv is there for versions that are not chosen, too: only a run tells.
            if subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode == 0:  # noqa: S603 - a Python
                found[version] = place
                break
    return found


class Installed:
    """A fresh environment with the wheel, with one extra or none."""

    def __init__(self, uv: str, wheel: Path, python: Path, folder: Path, extra: str | None) -> None:
        folder.mkdir(parents=True)
        run(uv, "venv", "--quiet", "--no-project", "--python", python, folder / "venv")
        self._folder, self._binaries = folder, folder / "venv" / "bin"
        self._environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("ROWLOCK_", "PYTHON", "DJANGO_"))
        }
        install = (uv, "pip", "install", "--quiet", "--python", self._binaries / "python")
        run(*install, "--constraint", ROOT / "requirements.lock", f"{wheel}[{extra}]" if extra else wheel)

    def run(self, program: str, *words: str) -> str:
        """Run a program of this environment, as its user would."""
        return run(self._binaries / program, *words, cwd=self._folder, environment=self._environment)

    def python(self, source: str) -> str:
        """Run a Python program."""
        (self._folder / "trial.py").write_text(source, encoding="utf-8")
        return self.run("python", "trial.py")

    def require_named(self, programs: Sequence[tuple[str, str]]) -> None:
        """Fail unless each program, given with its extra, ends by saying the line that installs the extra."""
        answers = json.loads(self.python(_ENDING.format(sources=[source for _, source in programs])))
        for (extra, source), said in zip(programs, answers, strict=True):
            if f"pip install 'rowlock[{extra}]'" not in said:
                message = f"without the extra {extra}, this program does not say how to install it:\n{source}\n{said}"
                raise SystemExit(message)


def smoke(installed: Installed) -> str:
    """Use a wheel with its embedded server; returns what `rowlock --version` said."""
    said = installed.run("rowlock", "--version").strip()
    installed.python(TRIAL)
    return said


def require_all_extras() -> None:
    """Fail unless each extra of pyproject.toml is used, and missed or known not to be."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    there = set(project["optional-dependencies"])
    for name, tried in (
        ("USES", {"embedded", *USES}),
        ("MISSING or NOT_MISSED", {*MISSING, *MISSING_BESIDE, *NOT_MISSED}),
    ):
        if tried != there:
            message = f"tools/wheel_extras.py: {name} and pyproject.toml differ in {', '.join(sorted(tried ^ there))}"
            raise SystemExit(message)


def try_extras(uv: str, wheel: Path, python: Path, folder: Path) -> None:
    """Use each extra alone, and see what is said without it."""
    bare = Installed(uv, wheel, python, folder / "bare", None)
    bare.require_named([(extra, source) for extra, programs in MISSING.items() for source in programs])
    for extra, source in USES.items():
        installed = Installed(uv, wheel, python, folder / extra, extra)
        installed.python(source)
        besides = [(other, program) for other, (beside, program) in MISSING_BESIDE.items() if beside == extra]
        if besides:
            installed.require_named(besides)
        sys.stdout.write(f"rowlock[{extra}]: brings what it needs\n")


def main(arguments: list[str]) -> int:
    """Try every version; 0: all of them work."""
    parser = argparse.ArgumentParser("wheel_smoke.py", description="Try the built wheel with every Python here.")
    parser.add_argument("versions", nargs="*", metavar="3.X")
    parser.add_argument("--uv", default="uv")
    options = parser.parse_args(arguments)
    found = interpreters(options.versions)
    if missing := [version for version in options.versions if version not in found]:
        sys.stderr.write(f"no interpreter found for {', '.join(missing)}\n")
    uv, started = shutil.which(options.uv) or options.uv, time.monotonic()
    require_all_extras()
    with tempfile.TemporaryDirectory(prefix="rowlock-wheel-") as folder:
        build = (uv, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable)
        run(*build, "--out-dir", folder)
        (wheel,) = Path(folder).glob("*.whl")
        for version, python in found.items():
            installed = Installed(uv, wheel, python, Path(folder) / version, "embedded")
            sys.stdout.write(f"{version}: {smoke(installed)}, one job done\n")
        if found:
            try_extras(uv, wheel, list(found.values())[-1], Path(folder) / "extras")
    sys.stdout.write(f"{time.monotonic() - started:.0f} seconds\n")
    return 1 if missing or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
