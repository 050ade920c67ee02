"""An edit of a lane meets the duty that brings caps and rates in line with their lanes: the edit stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.factories import several

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.factories import Store

SLOW = json.dumps({"amount": 4, "per": 3600, "burst": 4, "window": False})
QUICK = json.dumps({"amount": 50, "per": 1, "burst": 4, "window": False})


@pytest.fixture
async def stores(database_url: str) -> AsyncIterator[list[Store]]:
    async with several(database_url, 2) as both:
        yield both


async def test_a_repair_of_rates_never_undoes_an_edit_in_progress(stores: list[Store]) -> None:
    editor, duty = stores
    await editor.lane("l")
    await editor.execute("UPDATE {s}.lanes SET rate = $1::text::jsonb", SLOW)
    await duty.fetch("lane_rate", only=None)
    async with editor.connection.transaction():
        await editor.execute("UPDATE {s}.lanes SET rate = $1::text::jsonb", QUICK)
        await editor.fetch("lane_rate", only=["lane:l"])
        waiting = await editor.blocked(duty, duty.fetch("lane_rate", only=None))
    await waiting
    assert await editor.value("SELECT amount FROM {s}.rates WHERE key = 'lane:l'") == 50


async def test_a_repair_of_rates_keeps_no_rate_that_an_edit_removes(stores: list[Store]) -> None:
    editor, duty = stores
    await editor.lane("l")
    await editor.execute("UPDATE {s}.lanes SET rate = $1::text::jsonb", SLOW)
    await duty.fetch("lane_rate", only=None)
    async with editor.connection.transaction():
        await editor.execute("UPDATE {s}.lanes SET rate = NULL")
        await editor.fetch("lane_rate", only=["lane:l"])
        waiting = await editor.blocked(duty, duty.fetch("lane_rate", only=None))
    await waiting
    assert await editor.value("SELECT count(*) FROM {s}.rates") == 0


async def test_a_repair_of_caps_never_undoes_an_edit_in_progress(stores: list[Store]) -> None:
    editor, duty = stores
    await editor.lane("l", max_total=2)
    async with editor.connection.transaction():
        await editor.execute("UPDATE {s}.lanes SET max_total = 7")
        await editor.fetch("lane_cap", name="l")
        waiting = await editor.blocked(duty, duty.fetch("repair_caps", only=None))
    await waiting
    assert await editor.value("SELECT max_running FROM {s}.gates WHERE key = 'lane:l'") == 7
