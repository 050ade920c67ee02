"""Looking at processes of the operating system."""

from __future__ import annotations

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def ended(pid: int) -> bool:
    """The opposite of alive(), for eventually()."""
    return not alive(pid)
