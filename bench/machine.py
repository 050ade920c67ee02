"""What the operating system knows: processor time, memory, and how much of the machine others are using."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")
QUIET: Final = 0.2
"""Foreign cores up to which a machine counts as quiet."""


def processor_time(pid: int, *, reaped: bool = False) -> float:
    """Seconds a process has used, with its reaped children if asked for; 0 when it is gone."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if reaped else 13])) / _TICKS


def tree(pid: int) -> list[int]:
    """A process and everything below it."""
    found = [pid]
    for task in (_PROC / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += tree(int(child))
    return found


def trees_time(pids: Iterable[int]) -> float:
    """Seconds used by processes and everything below them."""
    return sum(processor_time(one) for pid in pids for one in tree(pid))


def resident(pids: Iterable[int]) -> float:
    """Megabytes in memory, shared pages counted once per process."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE
    return total / 1e6


def busy() -> float:
    """Core-seconds the whole machine has spent since it started."""
    fields = [int(part) for part in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS


class Noise:
    """Cores used by processes that are not ours, from its making to its reading."""

    def __init__(self, own: Callable[[], float]) -> None:
        """own: core-seconds of everything that belongs to the measurement."""
        self._own, self._began = own, time.monotonic()
        self._busy, self._ours = busy(), own()

    def read(self) -> float:
        """Foreign cores, on average."""
        foreign = busy() - self._busy - (self._own() - self._ours)
        return max(0.0, foreign / max(time.monotonic() - self._began, 1e-3))


def wait_until_quiet(own: Callable[[], float], patience: float) -> None:
    """Let others finish, for a limited time in seconds: what is measured afterwards says how noisy it was anyway."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        noise = Noise(own)
        time.sleep(0.5)
        if noise.read() < QUIET:
            return


def describe() -> dict[str, str]:
    """The machine, for whoever compares figures."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?"
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "memory": f"{memory / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
