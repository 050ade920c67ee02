"""Jobs in child processes whose parameters are provided there; imported by the children, too."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator  # noqa: TC003 - read at run time
from typing import Annotated, Any

from rowlock import Context, Depends, Rowlock, SyncContext

app = Rowlock(os.environ.get("ROWLOCK_DATABASE_URL", "postgresql://set.by.the.test/x"))
library = logging.getLogger("some.library")


@app.worker_lifespan
async def lifespan() -> AsyncIterator[dict[str, Any]]:
    yield {"pid": os.getpid()}


@app.middleware
async def marked(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - the handler's own
    return {"state": ctx.state["pid"], "marked_in": os.getpid(), **await call()}


async def pool() -> AsyncIterator[list[str]]:
    yield [f"pool of {os.getpid()}"]


def session(pool: Annotated[list[str], Depends(pool, scope="worker")], ctx: SyncContext) -> Iterator[str]:
    yield f"{ctx.job.kind} with {pool[0]} in {threading.current_thread().name}"
    library.warning("the tail of %s", ctx.job.kind)


@app.job("child.blocking", executor="process")
def blocking(n: int, session: Annotated[str, Depends(session)]) -> dict[str, Any]:
    return {"pid": os.getpid(), "n": n, "session": session}


@app.job("child.async", executor="process")
async def asynchronous(n: int, pool: Annotated[list[str], Depends(pool, scope="worker")]) -> dict[str, Any]:
    return {"pid": os.getpid(), "n": n, "pool": pool[0]}
