"""System: what the operating system tells of processes, and how it ties one to another."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def resident(pid: int) -> int | None:
    """Bytes of memory a process occupies; None: it is gone, or the system does not tell."""
    try:
        if sys.platform == "linux":
            pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607 - a fixed command
        return int(told.stdout) * 1024
    except (OSError, ValueError, IndexError):
        return None


def settle_in() -> None:
    """After the start of a process that is to run for long: give back what starting needed, and keep the rest for good.

    What was imported is never garbage; out of the collector's sight it costs no round, and stays shared after a fork.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # glibc's; others have none


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, even while C code holds the interpreter's lock.

    It answers the end of the thread that started this process: parents start processes in a thread that stays.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def ending(code: int | None) -> str:
    """How a process ended, as people say it after "ended"."""
    if code is None or code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
