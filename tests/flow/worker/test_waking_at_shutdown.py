from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

from rowlock import Rowlock

if TYPE_CHECKING:
    import pytest


def test_the_last_wake_up_is_sent_where_warnings_are_errors(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Rowlock(database_url)

    @app.job
    async def note(n: int) -> None: ...

    async def enqueue() -> None:
        for n in range(3):  # all but the first wake-up wait for the end of its window: the loop ends before
            await note.enqueue(n=n)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(enqueue())
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
