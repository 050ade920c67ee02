from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.model import ids

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def in_state(rest: Rest, state: str) -> str:
    """The id of a job in that state."""
    job = await rest.submit("pay", args={"amount": 1}) if state == "pending" else await rest.submit()
    number = ids.decode(job["id"])
    if state in {"running", "completed", "failed"}:
        (claim,) = await rest.store.claim(await rest.store.worker(), number)
        if state == "completed":
            await rest.store.complete(claim)
        if state == "failed":
            await rest.store.complete(claim, state="failed")
    if state == "cancelled":
        await rest.store.cancel_waiting(number)
    return str(job["id"])


@pytest.mark.parametrize(
    ("state", "verb", "status", "after"),
    [
        ("pending", "approve", 200, "queued"),
        ("queued", "approve", 200, "queued"),
        ("running", "approve", 409, "running"),
        ("completed", "approve", 409, "completed"),
        ("pending", "reject", 200, "cancelled"),
        ("cancelled", "reject", 200, "cancelled"),
        ("queued", "reject", 409, "queued"),
        ("queued", "cancel", 200, "cancelled"),
        ("cancelled", "cancel", 200, "cancelled"),
        ("running", "cancel", 200, "running"),
        ("completed", "cancel", 409, "completed"),
        ("failed", "retry", 200, "queued"),
        ("queued", "retry", 200, "queued"),
        ("running", "retry", 409, "running"),
    ],
)
async def test_an_order_moves_the_job_or_says_what_would(
    rest: Rest, state: str, verb: str, status: int, after: str
) -> None:
    job = await in_state(rest, state)
    async with rest.client() as client:
        async with rest.client("boss") as boss:
            answer = await boss.post(f"/jobs/{job}/{verb}", json={"note": "why"})
        assert answer.status_code == status, answer.text
        now = (await client.get(f"/jobs/{job}")).json()
    assert now["state"] == after
    if status == 409:
        problem = answer.json()
        assert (problem["code"], problem["current_state"]) == ("invalid-transition", state)
        assert verb not in problem["allowed"]
    else:
        assert answer.json() == now


async def test_stopping_ends_a_running_job_at_once(rest: Rest) -> None:
    job = await in_state(rest, "running")
    async with rest.client() as client:
        asked = await client.post(f"/admin/workers/jobs/{job}/cancel")
        assert (asked.json()["state"], asked.json()["cancel_requested"]) == ("running", True)
        again = await client.post(f"/admin/workers/jobs/{job}/cancel")
        assert again.status_code == 200
        ended = await client.post(f"/admin/workers/jobs/{job}/cancel", json={"stop": True, "note": "now"})
        assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")


async def test_a_waiting_job_gets_another_priority(rest: Rest) -> None:
    job = await rest.submit()
    async with rest.client() as client:
        changed = await client.patch(f"/admin/workers/jobs/{job['id']}/priority", json={"priority": 9})
        assert (changed.status_code, changed.json()["priority"]) == (200, 9)
        running = await in_state(rest, "running")
        refused = await client.patch(f"/admin/workers/jobs/{running}/priority", json={"priority": 9})
        assert (refused.status_code, refused.json()["code"]) == (409, "invalid-transition")
        assert refused.json()["allowed"] == ["cancel", "stop"]


async def test_a_retry_whose_unique_key_is_taken_is_a_conflict(rest: Rest) -> None:
    first = await rest.submit(unique_key="k")
    async with rest.client() as client:
        await client.post(f"/jobs/{first['id']}/cancel")
        await rest.submit(unique_key="k")
        refused = await client.post(f"/jobs/{first['id']}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
