from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.api.conftest import declare, with_token

from rowlock import ConfigurationError, Rowlock
from rowlock.api import RowlockAPI
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LANES = "/admin/workers/lanes"
NAMES = {
    "job_types": "kinds",
    "max_slots": "slots",
    "poll_interval_ms": "poll_interval",
    "stale_timeout_minutes": "heartbeat_timeout",
    "stall_hours": "progress_timeout",
}


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Of an API with names of its own, which does not require If-Match."""
    app = declare(Rowlock(database_url))
    api = RowlockAPI(app, lane_names=NAMES, require_if_match=False)
    base, headers = "http://localhost/api/v1", with_token(api)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api.asgi), base_url=base, headers=headers) as found:
        await found.post(LANES, json={"name": "a", "job_types": ["greet"], "max_slots": 2, "poll_interval_ms": 1500})
        yield found
    await app.close()


def named(lane: dict[str, Any]) -> dict[str, Any]:
    return {name: lane[name] for name in (*NAMES, *NAMES.values())}


async def test_bodies_may_have_the_names_and_answers_have_both(client: httpx.AsyncClient) -> None:
    change = {"stale_timeout_minutes": 30, "stall_hours": 0.5, "enabled": False, "slots": 3}
    changed = await client.patch(f"{LANES}/a", json=change)
    assert changed.status_code == 200, changed.text
    both = {
        "job_types": ["greet"],
        "kinds": ["greet"],
        "max_slots": 3,
        "slots": 3,
        "poll_interval_ms": 1500,
        "poll_interval": 1.5,
        "stale_timeout_minutes": 30,
        "heartbeat_timeout": 1800.0,
        "stall_hours": 0.5,
        "progress_timeout": 1800.0,
    }
    listed = next(each for each in (await client.get(LANES)).json()["items"] if each["name"] == "a")
    assert named(listed) == named(changed.json()) == named((await client.get(f"{LANES}/a")).json()) == both
    assert (listed["used"], listed["total_slots"], listed["enabled"]) == (0, 0, False)
    status = (await client.get("/admin/workers/status")).json()["lanes"]
    assert [each["max_slots"] for each in status if each["name"] == "a"] == [3]
    removed = await client.patch(f"{LANES}/a", json={"stall_hours": None})
    assert removed.json()["progress_timeout"] is removed.json()["stall_hours"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_slots": 1, "slots": 1}, "Give one of them"),
        ({"poll_interval_ms": "2s"}, "poll_interval_ms is a number"),
        ({"poll_interval_ms": True}, "poll_interval_ms is a number"),
        ({"max_slots": -1}, "greater than or equal to 0"),
        ({"max_slot": 1}, "max_slot"),
    ],
)
async def test_what_does_not_fit_is_refused(client: httpx.AsyncClient, change: dict[str, Any], words: str) -> None:
    refused = await client.patch(f"{LANES}/a", json=change)
    assert refused.status_code == 422
    assert words in refused.text


async def test_an_if_match_that_is_sent_counts_where_none_is_required(client: httpx.AsyncClient) -> None:
    read = await client.get(f"{LANES}/a")
    assert (await client.patch(f"{LANES}/a", json={"slots": 4})).status_code == 200
    old = {"If-Match": read.headers["etag"]}
    late = await client.patch(f"{LANES}/a", json={"slots": 5}, headers=old)
    assert (late.status_code, late.json()["current"]["max_slots"]) == (412, 4)
    current = {"If-Match": late.headers["etag"]}
    assert (await client.patch(f"{LANES}/a", json={"slots": 5}, headers=current)).json()["max_slots"] == 5


@pytest.mark.parametrize("names", [{"max_slots": "slot"}, {"slots": "kinds"}, {"poll": "version"}])
def test_a_name_for_no_field_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="cannot stand for"):
        RowlockAPI(Rowlock("postgresql://localhost/none"), lane_names=names)


def test_whether_an_if_match_is_required_is_a_setting() -> None:
    url = "postgresql://localhost/none"
    lenient = Rowlock(url, settings=Settings.from_env({"ROWLOCK_REQUIRE_IF_MATCH": "off"}))
    assert RowlockAPI(Rowlock(url)).require_if_match
    assert not RowlockAPI(lenient).require_if_match
    assert RowlockAPI(lenient, require_if_match=True).require_if_match
