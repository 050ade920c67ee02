"""A renamed job with versioned arguments in a child process; imported by the child, too."""

from __future__ import annotations

import os
from typing import Any

from rowlock import Rowlock

app = Rowlock(os.environ.get("ROWLOCK_DATABASE_URL", "postgresql://set.by.the.test/x"))


@app.job("sums.add", executor="process", version=2, aliases=("add_up",))
def add(numbers: list[int]) -> dict[str, int]:
    return {"sum": sum(numbers), "pid": os.getpid()}


@add.upgrade(from_version=1)
def one_list(args: dict[str, Any]) -> dict[str, Any]:
    return {"numbers": [args["first"], args["second"]]}
