"""Files in the memory of a process."""

from __future__ import annotations


class StubBunnyClient:
    """Another process sees none of these files: for tests in one process."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    async def create(self) -> None:
        """Nothing has to be there."""

    async def put(self, key: str, content: bytes) -> None:
        """Keep a file."""
        self._files[key] = content

    async def get(self, key: str) -> bytes:
        """A file that was kept."""
        return self._files[key]
