from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def test_retention_is_read_set_and_reset(rest: Rest) -> None:
    async with rest.client() as client:
        (rule,) = (await client.get("/retention")).json()["items"]
        assert rule == {"kind": "*", "state": "*", "keep": 604800.0, "declared": 604800.0, "source": "code"}
        changed = await client.patch("/retention/*", json={"keep": "30d"}, params={"state": "failed"})
        assert changed.status_code == 200
        assert changed.json() == {
            "kind": "*",
            "state": "failed",
            "keep": 2592000.0,
            "declared": None,
            "source": "deployment",
        }
        assert len((await client.get("/retention")).json()["items"]) == 2
        gone = await client.delete("/retention/*", params={"state": "failed"})
        assert gone.json() == {"rule": None}
        assert (await client.patch("/retention/nothing", json={"keep": 1})).json()["code"] == "kind-not-found"
        wrong = await client.patch("/retention/*", json={"keep": 1}, params={"state": "queued"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-option")
