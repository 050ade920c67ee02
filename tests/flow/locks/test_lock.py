"""Who would wait for itself, and what a lost lock raises."""

from __future__ import annotations

import asyncio

import pytest
from tests.waiting import until_cancelled

from rowlock.errors import InvalidOption, LockLost
from rowlock.flow.locks.lock import HeldLock, LockOwner, LockRequest


def request() -> LockRequest:
    return LockRequest.of("edition", 7, LockOwner(), wait=True, timeout=None)


@pytest.mark.parametrize(
    ("holder", "other", "expected"),
    [
        (LockOwner(), LockOwner(), False),
        (LockOwner(thread=1), LockOwner(thread=1), True),
        (LockOwner(thread=1), LockOwner(thread=2), False),
        (LockOwner(5, 1), LockOwner(5, 1), True),
        (LockOwner(5, 1), LockOwner(5, 1, item="a"), True),
        (LockOwner(5, 1, item="a"), LockOwner(5, 1, item="a"), True),
        (LockOwner(5, 1, item="a"), LockOwner(5, 1, item="b"), False),
        (LockOwner(5, 1, item="a"), LockOwner(5, 1), False),
        (LockOwner(5, 1), LockOwner(5, 2), False),
        (LockOwner(5, 1), LockOwner(), False),
    ],
)
def test_an_owner_includes_itself_and_the_items_of_its_attempt(
    holder: LockOwner, other: LockOwner, expected: bool
) -> None:
    assert holder.includes(other) is expected


def test_a_request_is_checked_and_named() -> None:
    assert request().shown == "edition '7'"
    with pytest.raises(InvalidOption, match="timeout"):
        LockRequest.of("edition", 7, LockOwner(), wait=True, timeout="soon")


def test_the_first_reason_of_a_loss_counts_and_replaces_no_error_of_the_block() -> None:
    held = HeldLock(request())
    held.check()
    held.raise_if_lost(None)
    losses: list[HeldLock] = []
    held.on_lost = losses.append
    held.lose("the connection broke")
    held.lose("again")
    assert losses == [held]
    with pytest.raises(LockLost, match="edition '7' is lost: the connection broke"):
        held.check()
    held.raise_if_lost(ValueError("the block's own"))
    with pytest.raises(LockLost):
        held.raise_if_lost(None)


async def test_a_lost_lock_cancels_its_task_and_takes_the_cancellation_back() -> None:
    held = HeldLock(request())

    async def block() -> None:
        task = asyncio.current_task()
        assert task is not None
        held.bind(task)
        asyncio.get_running_loop().call_soon(held.lose, "gone")
        try:
            await until_cancelled()
        except asyncio.CancelledError as error:
            with pytest.raises(LockLost):
                held.raise_if_lost(error)
        assert not task.cancelling()

    await asyncio.create_task(block())
