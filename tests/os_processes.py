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


def in_group(pgid: int) -> list[int]:
    """The living processes of a process group."""
    stats = {int(folder.name): folder / "stat" for folder in Path("/proc").iterdir() if folder.name.isdigit()}
    found = []
    for pid, stat in stats.items():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if int(stat.read_text().rpartition(")")[2].split()[2]) == pgid and alive(pid):
                found.append(pid)
    return found


async def ended(pid: int) -> bool:
    """The opposite of alive(), for eventually()."""
    return not alive(pid)
