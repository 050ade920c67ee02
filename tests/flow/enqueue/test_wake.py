from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tests.waiting import let_others_run

from rowlock.flow.enqueue.wake import _SAVED, Waker

if TYPE_CHECKING:
    import pytest

    from rowlock.store.database import Database

PAIR = ("k", 0, 0)


class Sent:
    """As much of a database as a waker uses."""

    channel = "c"

    def __init__(self, *, hungry: bool = True) -> None:
        self.payloads: list[object] = []
        self.hungry = hungry

    async def fetch(self, name: str, /, **values: Any) -> list[Any]:  # noqa: ANN401 - a statement's
        assert name == "wake"
        self.payloads.append(values["payload"])
        return [None] if self.hungry else []


async def settle() -> None:
    for _ in range(5):
        await let_others_run()


async def test_the_first_few_wake_ups_go_out_at_once_and_the_rest_wait_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = Sent()
    waker = Waker(cast("Database", sent))
    low, loop = datetime.now(UTC), asyncio.get_running_loop()
    now = loop.time()
    with monkeypatch.context() as patched:
        patched.setattr(loop, "time", lambda: now)  # no window passes
        for count in range(1, _SAVED + 2):
            waker.note(PAIR, low)
            await settle()
            assert len(sent.payloads) == count
        for _ in range(50):
            waker.note(PAIR, low)
            await settle()
        assert len(sent.payloads) == _SAVED + 1
    await waker.flush()
    assert len(sent.payloads) == _SAVED + 2


async def test_while_nobody_is_hungry_there_is_one_question_per_window(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(hungry=False)
    waker = Waker(cast("Database", sent))
    low, loop = datetime.now(UTC), asyncio.get_running_loop()
    now = loop.time()
    with monkeypatch.context() as patched:
        patched.setattr(loop, "time", lambda: now)
        for _ in range(20):
            waker.note(PAIR, low)
            await settle()
        assert len(sent.payloads) == 1
    await waker.flush()
    assert len(sent.payloads) == 2


async def test_a_wake_up_tells_the_lowest_moment_of_each_pair() -> None:
    sent = Sent()
    waker = Waker(cast("Database", sent))
    for second in (3, 1, 2):
        waker.note(PAIR, datetime.fromtimestamp(second, UTC))
    waker.note(("other", 5, 0), datetime.fromtimestamp(9, UTC))
    await waker.flush()
    assert sent.payloads == ['{"wake":[["k",0,0,1.0],["other",5,0,9.0]]}']
