from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock.model import ids
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def test_a_submission_answers_202_with_the_job_and_its_place(rest: Rest) -> None:
    async with rest.client() as client:
        answer = await client.post("/jobs", json={"kind": "greet", "args": {"name": "Ada"}, "tags": ["x"]})
        assert answer.status_code == 202, answer.text
        job = answer.json()
        assert answer.headers["location"] == f"/api/v1/jobs/{job['id']}"
        assert answer.headers["retry-after"] == "1"
        assert ids.decode(job["id"]) > 0
        assert (job["state"], job["args"], job["tags"], job["submitted_by"]) == (
            "queued",
            {"name": "Ada"},
            ["x"],
            "root",
        )
        assert job["created_at"].endswith("Z")
        assert not job["deduplicated"]
        found = await client.get(f"/jobs/{job['id'].lower()}")
        job.pop("deduplicated")
        assert found.json() == job


async def test_a_job_is_read_again_only_when_it_changed(rest: Rest) -> None:
    job = await rest.submit()
    async with rest.client() as client:
        etag = (await client.get(f"/jobs/{job['id']}")).headers["etag"]
        same = await client.get(f"/jobs/{job['id']}", headers={"If-None-Match": f'"other", W/{etag}'})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
        await client.post(f"/jobs/{job['id']}/cancel")
        changed = await client.get(f"/jobs/{job['id']}", headers={"If-None-Match": etag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != etag


async def test_prefer_wait_answers_with_the_result(rest: Rest) -> None:
    async with rest.client() as client, rest.app.worker():
        answer = await client.post(
            "/jobs", json={"kind": "greet", "args": {"name": "Ada"}}, headers={"Prefer": "respond-async, wait=20"}
        )
        assert answer.status_code == 200, answer.text
        assert (answer.json()["state"], answer.json()["result"]) == ("completed", "Hello, Ada!")
        assert answer.headers["preference-applied"] == "wait=20"
        assert "retry-after" not in answer.headers


async def test_prefer_wait_gives_up_in_time(rest: Rest) -> None:
    async with rest.client() as client:
        answer = await client.post("/jobs", json={"kind": "explode"}, headers={"Prefer": "wait=0"})
        assert (answer.status_code, answer.json()["state"]) == (202, "queued")


async def test_arguments_by_position_are_given_by_name_here(rest: Rest) -> None:
    job = await rest.submit("positional", args={"first": 1, "second": 2})
    assert job["args"] == {"first": 1, "second": 2}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "greet", "args": {"name": 7}}, 422, "invalid-arguments"),
        ({"kind": "greet", "args": {}}, 422, "invalid-arguments"),
        ({"kind": "nothing"}, 404, "kind-not-found"),
        ({"kind": "greet", "priority": 101}, 422, "invalid-request"),
        ({"kind": "greet", "unknown": 1}, 422, "invalid-request"),
        ({"kind": "greet", "args": {"name": "a"}, "run_at": "2030-01-01T00:00:00"}, 422, "invalid-option"),
        ({"kind": "greet", "args": {"name": "a\x00"}}, 422, "invalid-arguments"),
        ({"kind": "greet", "args": {"name": "a"}, "meta": {"x": "\x00"}}, 422, "invalid-option"),
    ],
)
async def test_what_cannot_be_enqueued_is_a_problem(rest: Rest, body: object, status: int, code: str) -> None:
    async with rest.client() as client:
        answer = await client.post("/jobs", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert await rest.store.value("SELECT count(*) FROM {s}.jobs") == 0


async def test_a_unique_key_leads_to_the_job_that_is_there(rest: Rest) -> None:
    first = await rest.submit(unique_key="k")
    async with rest.client() as client:
        body = {"kind": "greet", "args": {"name": "Bo"}, "unique_key": "k"}
        kept = await client.post("/jobs", json=body)
        assert (kept.status_code, kept.json()["id"], kept.json()["deduplicated"]) == (200, first["id"], True)
        refused = await client.post("/jobs", json=body | {"on_conflict": "reject"})
        assert (refused.status_code, refused.json()["code"], refused.json()["job_id"]) == (
            409,
            "unique-conflict",
            first["id"],
        )


async def test_the_same_idempotency_key_makes_one_job(rest: Rest) -> None:
    body = {"kind": "greet", "args": {"name": "Ada"}}
    async with rest.client() as client:
        first = await client.post("/jobs", json=body, headers={"Idempotency-Key": "a"})
        assert first.status_code == 202
        assert "idempotency-replayed" not in first.headers
        again = await client.post("/jobs", json=body, headers={"Idempotency-Key": "a"})
        assert (again.status_code, again.json(), again.headers["idempotency-replayed"]) == (202, first.json(), "true")
        other = await client.post("/jobs", json={"kind": "explode"}, headers={"Idempotency-Key": "a"})
        assert (other.status_code, other.json()["code"]) == (422, "key-reused")
        new = await client.post("/jobs", json=body, headers={"Idempotency-Key": "b"})
        assert new.json()["id"] != first.json()["id"]
        await rest.store.execute("UPDATE {s}.job_keys SET expires_at = now() - interval '1 s'")
        expired = await client.post("/jobs", json={"kind": "explode"}, headers={"Idempotency-Key": "a"})
        assert expired.status_code == 202
        assert expired.json()["id"] != first.json()["id"]


async def test_an_idempotency_key_in_flight_is_told_so(rest: Rest) -> None:
    body = {"kind": "greet", "args": {"name": "Ada"}}
    async with rest.client() as client:
        answers = await asyncio.gather(
            *(client.post("/jobs", json=body, headers={"Idempotency-Key": "a"}) for _ in range(8))
        )
    codes = {answer.status_code for answer in answers}
    assert codes <= {202, 409}
    assert 202 in codes
    assert all(answer.json()["code"] == "in-flight" for answer in answers if answer.status_code == 409)
    assert await rest.store.value("SELECT count(*) FROM {s}.jobs") == 1


async def test_many_submissions_with_new_keys_do_not_wait_for_each_other_forever(rest: Rest) -> None:
    async with rest.client() as client:
        answers = await asyncio.gather(
            *(
                client.post(
                    "/jobs",
                    json={"kind": "greet", "args": {"name": "x"}, "priority": n},
                    headers={"Idempotency-Key": str(n)},
                )
                for n in range(12)
            )
        )
    assert {answer.status_code for answer in answers} == {202}


async def test_deleting_cancels_what_waits_removes_what_ended_and_leaves_what_runs(rest: Rest) -> None:
    job = await rest.submit()
    async with rest.client() as client:
        cancelled = await client.delete(f"/jobs/{job['id']}")
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
        removed = await client.delete(f"/jobs/{job['id']}")
        assert removed.status_code == 200
        gone = await client.get(f"/jobs/{job['id']}")
        assert (gone.status_code, gone.json()["code"]) == (404, "job-not-found")
        running = await rest.submit()
        await rest.store.claim(await rest.store.worker(), ids.decode(running["id"]))
        refused = await client.delete(f"/jobs/{running['id']}")
        assert (refused.status_code, refused.json()["current_state"]) == (409, "running")
        assert f"/admin/workers/jobs/{running['id']}/cancel" in refused.json()["detail"]


async def test_an_expired_job_is_shown_and_a_pruned_one_is_not(rest: Rest) -> None:
    job = await rest.submit(expires_in_s=0.001)
    await asyncio.sleep(0.01)
    await rest.store.expire()
    async with rest.client() as client:
        assert (await client.get(f"/jobs/{job['id']}")).json()["state"] == "expired"
        await rest.store.execute("DELETE FROM {s}.jobs")
        assert (await client.get(f"/jobs/{job['id']}")).status_code == 404


async def test_secrets_need_a_permission(rest: Rest) -> None:
    job = await rest.submit("login", args={"user": "ada", "password": "swordfish"})
    async with rest.client() as client:
        assert (await client.get(f"/jobs/{job['id']}")).json()["args"]["password"] == "swordfish"  # noqa: S105 - an example
    async with rest.knows(Principal("reader", permissions=ALL - {Permission.READ_ARGS})) as client:
        for answer in (await client.get(f"/jobs/{job['id']}"), await client.get("/jobs")):
            assert answer.status_code == 200
            assert "swordfish" not in answer.text


async def test_jobs_are_listed_page_by_page_in_both_directions(rest: Rest) -> None:
    made = [(await rest.submit(tags=["odd"] if n % 2 else ["even"]))["id"] for n in range(7)][::-1]
    async with rest.client() as client:
        first = await client.get("/jobs", params={"limit": 3, "q": "kind:greet"})
        page = first.json()
        assert [job["id"] for job in page["items"]] == made[:3]
        assert (page["count"], page["prev_cursor"]) == ({"value": 7, "exact": True}, None)
        assert first.links["next"]["url"].startswith("/api/v1/jobs?limit=3&q=kind%3Agreet&cursor=")
        second = await client.get(first.links["next"]["url"].removeprefix("/api/v1"))
        assert [job["id"] for job in second.json()["items"]] == made[3:6]
        back = await client.get("/jobs", params={"limit": 3, "q": "kind:greet", "cursor": second.json()["prev_cursor"]})
        assert [job["id"] for job in back.json()["items"]] == made[:3]
        odd = await client.get("/jobs", params={"q": "tag:odd", "sort": "oldest"})
        assert [job["id"] for job in odd.json()["items"]] == made[::-1][1::2]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"q": "stat:failed"}, "invalid-search"),
        ({"cursor": "nonsense"}, "invalid-cursor"),
        ({"limit": "0"}, "invalid-request"),
        ({"limit": "201"}, "invalid-request"),
    ],
)
async def test_a_list_that_cannot_be_made_is_a_problem(rest: Rest, params: dict[str, str], code: str) -> None:
    async with rest.client() as client:
        answer = await client.get("/jobs", params=params)
    assert answer.json()["code"] == code
    if code == "invalid-search":
        assert (answer.json()["position"], answer.json()["suggestion"]) == (0, "state:failed")


async def test_a_cursor_of_another_search_is_refused(rest: Rest) -> None:
    for _ in range(2):
        await rest.submit()
    async with rest.client() as client:
        cursor = (await client.get("/jobs", params={"limit": 1})).json()["next_cursor"]
        answer = await client.get("/jobs", params={"limit": 1, "q": "kind:greet", "cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-cursor")


async def test_attempts_and_explanation(rest: Rest) -> None:
    job = await rest.submit("pay", args={"amount": 3})
    async with rest.client() as client:
        why = (await client.get(f"/jobs/{job['id']}/explain")).json()
        assert (why["job_id"], why["reasons"][0]["code"]) == (job["id"], "approval")
        await client.post(f"/jobs/{job['id']}/approve", json={"note": "fine"})
        told = (await client.get(f"/jobs/{job['id']}/attempts")).json()
        assert [(act["verb"], act["by"], act["note"]) for act in told["acts"]] == [("approve", "root", "fine")]
