from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tests.waiting import in_time

from rowlock.flow.claim.db_clock import DatabaseClock
from rowlock.flow.claim.due_timer import DueTimer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_claim_is_made_at_once_for_what_is_past_and_in_time_for_what_is_near() -> None:
    loop, claim_now = asyncio.get_running_loop(), asyncio.Event()
    clock = DatabaseClock(loop.time)
    clock.set(NOW)
    timer = DueTimer(loop, clock, claim_now)
    timer.at([NOW - timedelta(seconds=1)])
    assert claim_now.is_set()
    claim_now.clear()
    began = loop.time()
    timer.at([NOW + timedelta(seconds=0.2)] * 100)
    assert len(timer._ticks) < 10, "one claim serves all that become due together"
    assert not claim_now.is_set()
    await in_time(claim_now.wait())
    assert loop.time() - began >= 0.15
    assert not timer._ticks


async def test_what_is_far_away_is_left_to_the_sweep() -> None:
    loop, claim_now = asyncio.get_running_loop(), asyncio.Event()
    clock = DatabaseClock(loop.time)
    clock.set(NOW)
    timer = DueTimer(loop, clock, claim_now)
    timer.at([NOW + timedelta(hours=1)])
    assert not timer._ticks
    assert not claim_now.is_set()
