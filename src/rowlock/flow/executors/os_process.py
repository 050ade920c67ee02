"""Operating system calls: the memory of a process, its exit code in words, and processes that die with their parent."""

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
    """Bytes of resident memory of a process; None: it is gone, or the system does not say."""
    try:
        if sys.platform == "linux":
            pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607 - a fixed command
        return int(shown.stdout) * 1024
    except (OSError, ValueError, IndexError):
        return None


def settle_in() -> None:
    """Call it after the start of a long-running process: frees what starting needed and freezes the rest.

    Imported modules are never garbage; frozen, they cost no collection and stay shared after a fork.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # glibc's; others have none


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, even while C code holds the interpreter's lock.

    The kernel acts at the end of the thread that started this process, so parents start processes in a lasting thread.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def ending(code: int | None) -> str:
    """How a process ended, to follow the word "ended"."""
    if code is None or code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
