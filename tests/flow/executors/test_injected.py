from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.flow.executors import injected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock import Rowlock


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    was = injected.app.settings
    injected.app.settings = replace(was, database_url=database_url)
    try:
        yield injected.app
    finally:
        await injected.app.close()
        injected.app.settings, injected.app._database = was, None


async def test_lifespan_middleware_and_dependencies_of_a_child_live_in_the_child(
    app: Rowlock, caplog: pytest.LogCaptureFixture
) -> None:
    async with app.worker():
        job = await app.task("child.blocking").enqueue(n=1)
        first = dict(await job.wait(timeout=40))  # type: ignore[call-overload]
        second = dict(await (await app.task("child.async").enqueue(n=2)).wait(timeout=40))  # type: ignore[call-overload]
    pid = first.pop("pid")
    assert pid != os.getpid()
    session = f"child.blocking with pool of {pid} in MainThread"
    assert first == {"state": pid, "marked_in": pid, "n": 1, "session": session}
    again = second.pop("pid")
    assert second == {"state": again, "marked_in": again, "n": 2, "pool": f"pool of {again}"}
    (tail,) = [record for record in caplog.records if record.getMessage() == "the tail of child.blocking"]
    assert (vars(tail)["job_id"], vars(tail)["kind"]) == (job.public_id, "child.blocking")
