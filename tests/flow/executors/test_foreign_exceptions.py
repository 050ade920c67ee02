"""An exception outside Exception ends the attempt that raised it, as any other does, in every executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.flow.executors import jobs

from rowlock import State

if TYPE_CHECKING:
    from rowlock import Rowlock

KINDS: Final = (
    "loop.foreign",
    "loop.foreign.at_once",
    "loop.foreign.limited",
    "loop.foreign.items",
    "thread.foreign",
    "process.foreign",
    "process.foreign.async",
)
STORED: Final = {
    "panic": ("tests.flow.executors.jobs.Panic", "called `Option::unwrap()` on a `None` value"),
    "generator exit": ("GeneratorExit", "left a generator"),
    "group": ("BaseExceptionGroup", "two at once (2 sub-exceptions)"),
    "exit": ("SystemExit", "3"),
    "interrupt": ("KeyboardInterrupt", "by the handler"),
    "cancelled": ("RuntimeError", "the handler was cancelled, but not by its worker"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_attempt_fails_with_the_error_and_counts(app: Rowlock, kind: str) -> None:
    task: Any = app.task(kind)
    async with app.worker():
        handles = {what: await task.enqueue(what) for what in STORED}
        neighbours = [await jobs.neighbour.enqueue(n) for n in range(3)]
        ended = {what: await app.jobs.wait(handle.id, timeout=60) for what, handle in handles.items()}
        assert [await one.wait(timeout=60) for one in neighbours] == [0, 1, 2]
    for what, (stored_type, message) in STORED.items():
        job = ended[what]
        assert (what, job.state, job.attempt) == (what, State.FAILED, 2)
        assert job.errors is not None
        assert (job.errors["reason"], job.errors["type"], job.errors["message"]) == (
            "attempts exhausted",
            stored_type,
            message,
        )
        history = await app.jobs.history(job.id)
        assert [(one.outcome, one.attempt) for one in history.attempts] == [("failed", 1)], what
