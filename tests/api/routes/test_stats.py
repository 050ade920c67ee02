"""The numbers of app.stats over the wire: the same, under the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowlock.model import ids
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def test_every_number_of_the_desk_is_served(rest: Rest) -> None:
    store = rest.store
    worker = await store.worker("w1")
    running = await rest.submit(tenant="acme", refs={"project": 7}, tags=["x"])
    failed = await rest.submit("explode", tenant="acme")
    waiting = await rest.submit()
    (one, two) = await store.claim(worker, ids.decode(running["id"]), ids.decode(failed["id"]))
    await store.report(one)
    await store.complete(two, state="failed")
    async with rest.client() as client:

        async def read(what: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - of the query, JSON
            answer = await client.get(f"/stats/{what}", params=params)
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

        overview = await read("overview")
        assert overview["states"]["running"] == {"value": 1, "exact": True}
        assert overview["ended"]["failed"]["value"] == 1
        (backlog,) = (await read("backlog"))["items"]
        assert (backlog["kind"], backlog["due"]["value"], backlog["oldest_id"]) == ("greet", 1, waiting["id"])
        (busy,) = (await read("running"))["items"]
        assert (busy["id"], busy["worker"], busy["progress"]["phase"]) == (running["id"], "w1", "p")
        assert (busy["tenant"], busy["refs"], busy["tags"]) == ("acme", {"project": 7}, ["x"])
        assert [each["id"] for each in (await read("slow", longer_than=0))["items"]] == [running["id"]]
        assert (await read("slow"))["items"] == []
        (failure,) = [item for item in (await read("failures"))["items"] if item["kind"] == "explode"]
        assert (failure["failed"]["value"], failure["last_failed_id"]) == (1, failed["id"])
        (work,) = (await read("references", name="project", value="7", phase="p"))["items"]
        assert (work["kind"], work["running"], work["longest"] >= 0) == ("greet", 1, True)
        assert (await read("references", name="project", value="8"))["items"] == []
        (tenant,) = (await read("tenants"))["items"]
        assert (tenant["tenant"], tenant["ended"]["value"], tenant["failed"]["value"]) == ("acme", 1, 1)
        assert (await read("throughput"))["ended"] == {"value": 1, "exact": True}
        assert (await client.get("/stats/summary")).status_code == 404
        assert (await client.get("/stats/overview", params={"window": 0})).json()["code"] == "invalid-request"
    narrow = Principal("eve", "acme", permissions=ALL - {Permission.READ_ALL})
    async with rest.knows(narrow) as client:
        refused = await client.get("/stats/references")
        assert (refused.status_code, refused.json()["permission"]) == (403, "jobs:read_all")


async def test_series_are_served_by_lane_and_kind(rest: Rest) -> None:
    store = rest.store
    job = await rest.submit("explode")
    await store.complete(*await store.claim(await store.worker(), ids.decode(job["id"])), state="failed")
    async with rest.client() as client:

        async def read(**params: Any) -> dict[str, Any]:  # noqa: ANN401 - of the query
            answer = await client.get("/stats/series", params=params)
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

        hour = await read(window="1h", by="lane")
        (lane,) = hour["items"]
        assert (hour["step"], lane["name"], len(lane["points"])) == (60, "default", 61)
        (point,) = [point for point in lane["points"] if point["ended"]]
        assert (point["ended"], point["retried"]) == ({"failed": 1}, 0)
        assert [each["partial"] for each in lane["points"]] == [False] * 60 + [True]
        assert point["run"]["p50"] > 0
        assert lane["points"][0]["wait"] == {"p50": None, "p95": None, "p99": None, "mean": None}
        assert [each["name"] for each in (await read(window="1d", by="kind"))["items"]] == ["explode"]
        week = await read(window="7d", kind="greet")
        assert (week["step"], [each["name"] for each in week["items"]]) == (3600, [None])
        assert not any(point["ended"] for point in week["items"][0]["points"])
        assert [len((await read(window=window))["items"][0]["points"]) for window in ("2h", "1d", "8d", "31d")] == [
            121,
            145,
            193,
            187,
        ]
        assert (await client.get("/stats/series", params={"window": "60d"})).status_code == 422


async def test_statistics_of_a_kind_are_served(rest: Rest) -> None:
    store = rest.store
    worker = await store.worker()
    await rest.app.lanes.create("front", kinds=["explode"])
    for state in ("failed", "completed", "completed"):
        job = await rest.submit("explode", tenant="acme")
        await store.complete(*await store.claim(worker, ids.decode(job["id"]), lane="front"), state=state)
    failed = await rest.submit("explode", tenant="zeta")
    await store.complete(*await store.claim(worker, ids.decode(failed["id"]), lane="front"), state="failed")
    running = await rest.submit("explode")
    await store.claim(worker, ids.decode(running["id"]), lane="front")
    await rest.submit("explode")
    async with rest.client() as client:
        kind = (await client.get("/kinds/explode/stats")).json()
        assert (kind["lane"], kind["running"], kind["due"]["value"]) == ("front", 1, 1)
        assert (kind["ended"], kind["failure_rate"]) == ({"failed": 2, "completed": 2}, 0.5)
        assert kind["run"]["p95"] > 0
        assert kind["last_failed_id"] == failed["id"]
        nothing = (await client.get("/kinds/never/stats")).json()
        assert (nothing["ended"], nothing["failure_rate"], nothing["run"]["p50"], nothing["lane"]) == (
            {},
            0,
            None,
            None,
        )
    async with rest.knows(Principal("eve", "acme", permissions=ALL - {Permission.READ_ALL})) as client:
        assert (await client.get("/kinds/explode/stats")).json()["last_failed_id"] != failed["id"]
