from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.api.conftest import Rest

LANES = "/admin/workers/lanes"


async def test_a_lane_is_created_read_and_changed_under_its_version(rest: Rest) -> None:
    async with rest.client() as client:
        made = await client.post(LANES, json={"name": "reports", "kinds": ["greet"], "slots": 2, "poll_interval": 1.5})
        assert made.status_code == 201, made.text
        assert (made.json()["poll_interval"], made.json()["heartbeat_timeout"], made.json()["max_total"]) == (
            1.5,
            60,
            None,
        )
        twice = await client.post(LANES, json={"name": "reports"})
        assert (twice.status_code, twice.json()["code"]) == (409, "conflict")
        read = await client.get(f"{LANES}/reports")
        assert read.headers["etag"] == made.headers["etag"]
        same = await client.get(f"{LANES}/reports", headers={"If-None-Match": read.headers["etag"]})
        assert same.status_code == 304
        changed = await client.patch(
            f"{LANES}/reports", json={"slots": 5, "max_total": 3}, headers={"If-Match": read.headers["etag"]}
        )
        assert (changed.status_code, changed.json()["slots"], changed.json()["max_total"]) == (200, 5, 3)
        uncapped = await client.patch(
            f"{LANES}/reports", json={"max_total": None}, headers={"If-Match": changed.headers["etag"]}
        )
        assert (uncapped.json()["max_total"], uncapped.json()["slots"]) == (None, 5)


async def test_a_rate_and_ageing_are_set_and_taken_away(rest: Rest) -> None:
    async with rest.client() as client:
        made = await client.post(LANES, json={"name": "a", "rate": {"amount": 10, "burst": 20}, "order": "fair"})
        assert made.json()["rate"] == {"amount": 10, "per": 1.0, "burst": 20, "window": False}
        old = {"If-Match": made.headers["etag"]}
        changed = await client.patch(f"{LANES}/a", json={"rate": None, "aging_interval": 60}, headers=old)
        assert (changed.json()["rate"], changed.json()["aging_interval"], changed.json()["order"]) == (None, 60, "fair")


async def test_a_change_without_if_match_is_428_and_with_an_old_one_412(rest: Rest) -> None:
    async with rest.client() as client:
        made = await client.post(LANES, json={"name": "a"})
        blind = await client.patch(f"{LANES}/a", json={"slots": 1})
        assert (blind.status_code, blind.json()["code"]) == (428, "if-match-required")
        old = {"If-Match": made.headers["etag"]}
        assert (await client.patch(f"{LANES}/a", json={"slots": 1}, headers=old)).status_code == 200
        late = await client.patch(f"{LANES}/a", json={"slots": 2}, headers=old)
        assert (late.status_code, late.json()["code"]) == (412, "version-mismatch")
        assert late.json()["current"]["slots"] == 1
        fresh = await client.patch(f"{LANES}/a", json={"slots": 2}, headers={"If-Match": late.headers["etag"]})
        assert fresh.status_code == 200


async def test_of_two_changes_at_once_one_is_told_of_the_other(rest: Rest) -> None:
    async with rest.client() as client:
        made = await client.post(LANES, json={"name": "a"})
        answers = await asyncio.gather(
            *(
                client.patch(f"{LANES}/a", json={"slots": n}, headers={"If-Match": made.headers["etag"]})
                for n in range(1, 6)
            )
        )
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412, 412]


async def test_of_two_lanes_of_one_name_at_once_one_is_created(rest: Rest) -> None:
    async with rest.client() as client:
        for name in ("a", "b", "c"):
            answers = await asyncio.gather(
                *(client.post(LANES, json={"name": name, "slots": n}) for n in range(4)),
            )
            assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
            assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"conflict"}


async def test_pause_drain_and_resume(rest: Rest) -> None:
    async with rest.client() as client:
        await client.post(LANES, json={"name": "a"})
        for verb, enabled in (("pause", False), ("pause", False), ("resume", True), ("drain", False)):
            answer = await client.post(f"{LANES}/a/{verb}")
            assert (answer.status_code, answer.json()["enabled"]) == (200, enabled)
        unknown = await client.post(f"{LANES}/b/pause")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "lane-not-found")


async def test_status_tells_lanes_workers_slots_and_jobs(rest: Rest) -> None:
    job = await rest.submit()
    async with rest.client() as client, rest.app.worker(name="w1"):
        status = (await client.get("/admin/workers/status")).json()
        assert {lane["name"] for lane in status["lanes"]} == {"default", "front"}
        (worker,) = status["workers"]
        assert (worker["name"], worker["silent"]) == ("w1", False)
        drained = await client.post("/admin/workers/w1/drain")
        assert (drained.status_code, [each["name"] for each in drained.json()["items"]]) == (202, ["w1"])
        nobody = await client.post("/admin/workers/w2/drain")
        assert (nobody.status_code, nobody.json()["code"]) == (404, "worker-not-found")
    assert job["id"]


async def test_lanes_are_listed_with_their_use(rest: Rest) -> None:
    async with rest.client() as client:
        assert (await client.post(LANES, json={"name": "reports", "kinds": ["report"], "slots": 4})).status_code == 201
        runs, *_ = [await rest.store.enqueue("report") for _ in range(3)]
        await rest.store.claim(await rest.store.worker("w1"), runs, lane="reports")
        (lane,) = (await client.get(LANES)).json()["items"]
        assert (lane["running"], lane["used"], lane["held"]) == (1, 1, 0)
        assert (lane["workers"], lane["total_slots"]) == (1, 4)
        assert (lane["due"], lane["scheduled"]["value"]) == ({"value": 2, "exact": True}, 0)
        assert lane["oldest_wait"] > 0


async def test_kinds_and_the_schema_of_their_arguments(rest: Rest) -> None:
    async with rest.client() as client:
        kinds = {kind["name"]: kind for kind in (await client.get("/kinds")).json()["items"]}
        assert (kinds["pay"]["approval"], kinds["greet"]["description"]) == (True, "Say hello.")
        schema = (await client.get("/kinds/greet/schema")).json()
        assert (set(schema["properties"]), schema["required"]) == ({"name", "times"}, ["name"])
        unknown = await client.get("/kinds/nothing/schema")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "kind-not-found")


async def test_locks_are_listed_with_holder_and_waiters(rest: Rest) -> None:
    async with rest.app.lock("edition", 7), rest.client() as client:
        (lock,) = (await client.get("/locks")).json()["items"]
    assert (lock["namespace"], lock["key"], lock["waiters"], lock["holder"]["job"]) == ("edition", "7", [], None)
