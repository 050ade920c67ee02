"""How much memory a process uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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
