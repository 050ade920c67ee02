"""Workers for moves: one of Rowlock in a thread, and processes of either side in a folder of modules."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rowlock import Rowlock


@contextlib.contextmanager
def working(app: Rowlock) -> Iterator[None]:
    """A worker of the application for a block."""
    worker = app.start_worker()
    try:
        yield
    finally:
        worker.stop()


class Folder:
    """Modules of an application on its way from one queue to the other."""

    def __init__(self, path: Path, **environment: str) -> None:
        self.path, self._environment = path, {**os.environ, "PYTHONUNBUFFERED": "1", **environment}

    def write(self, **modules: str) -> None:
        """Write modules by name."""
        for name, text in modules.items():
            (self.path / f"{name}.py").write_text(text)

    def run(self, code: str) -> None:
        """Run Python in a process of its own, to its end."""
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=self.path, env=self._environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr

    @contextlib.contextmanager
    def processes(self, **commands: list[str]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        """`python -m …` for each name, which is its variable SIDE, while the block lasts; each has a log."""
        started = {}
        try:
            for side, command in commands.items():
                with (self.path / f"{side}.log").open("ab") as log:
                    started[side] = subprocess.Popen(
                        [sys.executable, "-m", *command],
                        cwd=self.path,
                        env={**self._environment, "SIDE": side},
                        stdout=log,
                        stderr=log,
                    )
            yield started
        finally:
            for process in started.values():
                process.kill()
                process.wait()
