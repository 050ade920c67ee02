"""What handlers and producers say they did: a file per process that no nemesis touches.

One write() per line to a file opened with O_APPEND: a line is there or not, whatever kills its process, and the
server's fate is not the ledger's. The machine survives every scenario, so nothing has to be synced. Moments are read
from the kernel's monotonic clock, which all processes of a machine share and libfaketime leaves alone when told to.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "TORTURE_LEDGER"
SEED = "TORTURE_SEED"
"""The environment variable that names the folder."""


@dataclass(frozen=True, slots=True)
class Line:
    """A moment in a handler's run. what: start, end, told (to stop) or item."""

    what: str
    job: int
    fence: int
    tag: str
    at: float
    pid: int
    token: str = ""
    """Of an end: what the handler is about to return."""
    run: str = ""
    """Tells the runs of a process apart when the server gave the same claim out twice."""
    code: str = ""
    """The schema version that the code was made for which ran it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a producer. answer: acknowledged, unknown (an error, the job may exist) or rolled back."""

    tag: str
    kind: str
    answer: str
    at: float
    job: int | None = None
    key: str = ""
    """Its idempotency key."""
    why: str = ""
    took: float = 0.0
    """Seconds."""
    code: str = ""
    """The schema version that the code was made for which asked."""


class Ledger:
    """The file of one process; a forked child opens its own."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file: tuple[int, int] | None = None

    def note(self, entry: Line | Asked) -> None:
        """Write a line."""
        os.write(self._descriptor(), (json.dumps(asdict(entry)) + "\n").encode())

    def _descriptor(self) -> int:
        if self._file is None or self._file[0] != os.getpid():
            folder = self._folder or Path(os.environ[FOLDER])
            path = folder / f"{os.getpid()}-{time.monotonic_ns()}.jsonl"
            self._file = os.getpid(), os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return self._file[1]


def read(folder: Path) -> Iterator[Line | Asked]:
    """Everything written so far, by any process, without an order."""
    for path in folder.glob("*.jsonl"):
        for text in path.read_text().splitlines():
            entry = json.loads(text)
            yield Line(**entry) if "what" in entry else Asked(**entry)
