from __future__ import annotations

from typing import TYPE_CHECKING

from tests.factories import rate

from rowlock import Rate

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def test_gates_and_rates_are_read_and_changed(rest: Rest) -> None:
    await rest.store.gate("org/7", 2)
    await rate(rest.store, "org/7", Rate(10))
    async with rest.client() as client:
        (gate,) = (await client.get("/limits/gates")).json()["items"]
        assert (gate["key"], gate["limit"], gate["held"], gate["holders"]) == ("org/7", 2, 0, [])
        changed = await client.patch("/limits/gates/org/7", json={"limit": 4})
        assert (changed.status_code, changed.json()["limit"]) == (200, 4)
        (view,) = (await client.get("/limits/rates", params={"prefix": "org"})).json()["items"]
        assert view["rate"] == {"amount": 10, "per": 1.0, "burst": 10, "window": False}
        other = await client.patch("/limits/rates/org/7", json={"amount": 3, "per": 60, "window": True})
        assert other.json()["rate"] == {"amount": 3, "per": 60.0, "burst": None, "window": True}
        paused = await client.post("/limits/rates/org/7/pause", json={"lasting": 60})
        assert paused.json()["paused_until"] is not None
        assert (await client.post("/limits/rates/org/7/resume")).json()["paused_until"] is None
        assert (await client.post("/limits/rates/org/7/reset")).status_code == 200
        assert (await client.delete("/limits/rates/org/7")).status_code == 409
        assert (await client.delete("/limits/gates/org/7")).status_code == 200
        missing = await client.get("/limits/gates/org/7")
        assert (missing.status_code, missing.json()["code"]) == (404, "limit-not-found")
