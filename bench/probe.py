"""Counts handler starts outside the database: memory-mapped files that handlers write and the harness reads.

A hit costs about a microsecond and adds nothing to the load of the system that is measured. Used inside the peers'
environments too, so it needs the standard library alone. BENCH_RUN names the folder, BENCH_TAG the measurement.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_COUNTER: Final = struct.Struct("ddd")
"""Hits, first and last moment."""
_MOMENT: Final = struct.Struct("d")
_COUNT: Final = "count"
_STARTS: Final = "starts"
_CALLS: Final = "calls"
UNNUMBERED: Final = -1
"""A job whose own start is not recorded."""


class _Counter:
    """The counter of one process; a forked child makes its own."""

    def __init__(self, folder: Path, tag: str) -> None:
        self.pid = os.getpid()
        path = folder / f"{tag}.{_COUNT}.{self.pid}"
        path.write_bytes(b"\0" * _COUNTER.size)
        with path.open("r+b") as file:
            self._counter = mmap.mmap(file.fileno(), _COUNTER.size)
        self._hits, self._first, self._lock = 0, 0.0, threading.Lock()
        starts = folder / f"{tag}.{_STARTS}"
        self._starts: mmap.mmap | None = None
        if starts.exists():
            with starts.open("r+b") as file:
                self._starts = mmap.mmap(file.fileno(), 0)

    def hit(self, number: int, hits: int) -> None:
        now = time.time()
        if number >= 0 and self._starts is not None:
            at = number * _MOMENT.size
            # The first start counts: a system that runs a job twice gains nothing.
            if not any(self._starts[at : at + _MOMENT.size]):
                _MOMENT.pack_into(self._starts, at, now)
        with self._lock:
            self._hits += hits
            self._first = self._first or now
            _COUNTER.pack_into(self._counter, 0, self._hits, self._first, now)


_state: dict[str, _Counter] = {}
_making = threading.Lock()


def hit(number: int = UNNUMBERED, hits: int = 1) -> None:
    """A handler starts. number: of the job, when its own start is to be recorded; hits: jobs at once."""
    counter = _state.get("counter")
    if counter is None or counter.pid != os.getpid():
        counter = _own_counter()
    counter.hit(number, hits)


def _own_counter() -> _Counter:
    with _making:
        counter = _state.get("counter")
        # Once more: a second one of a process would truncate the file that the first has mapped, which is a SIGBUS.
        if counter is None or counter.pid != os.getpid():
            counter = _state["counter"] = _Counter(Path(os.environ["BENCH_RUN"]), os.environ["BENCH_TAG"])
        return counter


@dataclass(frozen=True, slots=True)
class Count:
    """Hits of all processes of a measurement; first and last are seconds of time.time(), 0 before the first."""

    hits: int = 0
    first: float = 0.0
    last: float = 0.0


def read(folder: Path, tag: str) -> Count:
    """What the handlers of a measurement have counted so far."""
    found = [
        _COUNTER.unpack(data)
        for path in folder.glob(f"{tag}.{_COUNT}.*")
        if len(data := path.read_bytes()) == _COUNTER.size
    ]
    found = [(hits, first, last) for hits, first, last in found if hits]
    if not found:
        return Count()
    return Count(int(sum(hits for hits, _, _ in found)), min(f for _, f, _ in found), max(last for *_, last in found))


def expect(folder: Path, tag: str, jobs: int) -> None:
    """Make room for the start of each numbered job."""
    (folder / f"{tag}.{_STARTS}").write_bytes(b"\0" * _MOMENT.size * jobs)


def starts(folder: Path, tag: str) -> list[float]:
    """When each numbered job started; 0 for one that has not."""
    return list(array("d", (folder / f"{tag}.{_STARTS}").read_bytes()))


def write_calls(folder: Path, tag: str, called: list[float], returned: list[float]) -> None:
    """Keep when each enqueue was called (or was due) and when it returned."""
    (folder / f"{tag}.{_CALLS}").write_bytes(array("d", called + returned).tobytes())


def calls(folder: Path, tag: str) -> tuple[list[float], list[float]]:
    """What write_calls kept."""
    moments = list(array("d", (folder / f"{tag}.{_CALLS}").read_bytes()))
    half = len(moments) // 2
    return moments[:half], moments[half:]
