"""An application with a kind for a process of its own: a child must be able to import it."""

from __future__ import annotations

import os

from rowlock import Rowlock, Settings

app = Rowlock(settings=Settings(database_url="postgresql://nobody@localhost:1/nowhere"))


def weigh(n: int) -> int:
    return n


@app.job(executor="process")
def heavy(n: int) -> list[int]:
    return [os.getpid(), weigh(n)]
