"""Looking at processes of the operating system."""

from __future__ import annotations

import contextlib
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(parent: int) -> list[int]:
    """The processes that a process has started itself."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


async def ended(pid: int) -> bool:
    """The opposite of alive(), for eventually()."""
    return not alive(pid)
