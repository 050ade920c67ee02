"""A page of the how-to guides, executed: every Python block in order, in one namespace, on a real database.

A comment behind a print() is what it must print.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import asyncpg
from tests.store.callers.neighbours import dialect

from rowlock import Rowlock

HOWTO = Path(__file__).parent.parent.parent / "docs" / "howto"


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


PROMISED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


class Page:
    """One page, its names after it ran, and what it printed."""

    def __init__(self, name: str, url: str) -> None:
        self.text = (HOWTO / name).read_text(encoding="utf-8")
        self.url = url
        self.names: dict[str, Any] = {}
        self.printed: list[str] = []

    def _here(self, block: str) -> str:
        for driver in ("psycopg", "asyncpg"):
            block = block.replace(f"postgresql+{driver}://localhost/shop", dialect(self.url, driver))
        return block.replace("postgresql://localhost/shop", self.url)

    async def run(self) -> None:
        self.names["print"] = lambda *values: self.printed.append(" ".join(str(value) for value in values))
        for block in BLOCK.findall(self.text):
            code = compile(self._here(block), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, self.names)  # noqa: S307 - our own page
            if inspect.iscoroutine(result):
                await result

    @property
    def promised(self) -> list[str]:
        return [text for block in BLOCK.findall(self.text) for text in PROMISED.findall(block)]

    async def close(self) -> None:
        for value in self.names.values():
            if isinstance(value, (Rowlock, asyncpg.Connection)):
                await value.close()
            elif hasattr(value, "dispose"):
                disposed = value.dispose()
                if inspect.isawaitable(disposed):
                    await disposed
