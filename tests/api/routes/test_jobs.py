from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock import chain
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
        assert f"/jobs/{running['id']}/cancel" in refused.json()["detail"]


async def test_an_expired_job_is_shown_and_a_pruned_one_is_not(rest: Rest) -> None:
    job = await rest.submit(expires_in=0.001)
    await eventually(rest.store.expire)
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
        async with rest.client("boss") as boss:
            await boss.post(f"/jobs/{job['id']}/approve", json={"note": "fine"})
        told = (await client.get(f"/jobs/{job['id']}/attempts")).json()
        assert [(act["verb"], act["by"], act["note"]) for act in told["acts"]] == [("approve", "boss", "fine")]


async def test_many_jobs_are_explained_with_one_request(rest: Rest) -> None:
    later, held = await rest.submit(run_in="1h"), await rest.submit("pay", args={"amount": 3})
    async with rest.client() as client:
        found = (await client.get("/explanations", params={"id": [held["id"], later["id"].lower()]})).json()["items"]
        assert [(each["job_id"], each["reasons"][0]["code"]) for each in found] == [
            (held["id"], "approval"),
            (later["id"], "scheduled"),
        ]
        alone = (await client.get(f"/jobs/{held['id']}/explain")).json()
        assert [each["details"] for each in alone["reasons"]] == [each["details"] for each in found[0]["reasons"]]
        too_many = await client.get("/explanations", params={"id": [held["id"]] * 51})
        assert too_many.status_code == 422
        assert (await client.get("/explanations", params={"id": ["nonsense!"]})).status_code == 404


async def test_items_and_logs_page_by_page(rest: Rest) -> None:
    job = await rest.submit("sort_out", args={"names": ["a", "b", "c"]})
    async with rest.client() as client, rest.app.worker():
        ended = await rest.app.jobs.wait(job["id"], timeout=20)
        assert ended.state == "completed_with_errors"
        shown = (await client.get(f"/jobs/{job['id']}")).json()["progress"]
        assert (shown["items"]["completed"], shown["items"]["failed"]) == (2, 1)
        first = (await client.get(f"/jobs/{job['id']}/items", params={"limit": 2})).json()
        assert [(item["name"], item["state"]) for item in first["items"]] == [("a", "completed"), ("b", "failed")]
        rest_of = await client.get(f"/jobs/{job['id']}/items", params={"limit": 2, "cursor": first["next_cursor"]})
        assert [item["name"] for item in rest_of.json()["items"]] == ["c"]
        failed = (await client.get(f"/jobs/{job['id']}/items", params={"state": "failed"})).json()["items"]
        assert failed[0]["error"]["message"] == "b is bad"
        lines = (await client.get(f"/jobs/{job['id']}/logs", params={"limit": 1})).json()
        assert [(line["level"], line["message"]) for line in lines["items"]] == [("INFO", "sorting a")]
        later = (await client.get(f"/jobs/{job['id']}/logs", params={"cursor": lines["next_cursor"]})).json()
        assert [line["message"] for line in later["items"]] == ["sorting b", "sorting c"]
        for cursor in ("\x7f", "AAAA", "eA"):
            broken = await client.get(f"/jobs/{job['id']}/logs", params={"cursor": cursor})
            assert (broken.status_code, broken.json()["code"]) == (400, "invalid-cursor")


async def test_a_clone_is_a_new_job_with_the_same_arguments(rest: Rest) -> None:
    job = await rest.submit("login", args={"user": "ada", "password": "x-secret"}, tags=["t"], priority=4)
    async with rest.client() as client:
        made = await client.post(f"/jobs/{job['id']}/clone")
        assert made.status_code == 202, made.text
        clone = made.json()
        assert clone["id"] != job["id"]
        assert [clone[name] for name in ("args", "tags", "priority")] == [
            job[name] for name in ("args", "tags", "priority")
        ]
        assert made.headers["location"] == f"/api/v1/jobs/{clone['id']}"
    async with rest.knows(Principal("reader", permissions=ALL - {Permission.READ_ARGS})) as client:
        refused = await client.post(f"/jobs/{job['id']}/clone")
        assert (refused.status_code, refused.json()["permission"]) == (403, "jobs:read_args")


async def test_a_waiting_job_is_changed_under_its_etag(rest: Rest) -> None:
    job = await rest.submit("pay", args={"amount": 1}, tags=["a"])
    path = f"/jobs/{job['id']}"
    async with rest.client() as client:
        blind = await client.patch(path, json={"priority": 3})
        assert (blind.status_code, blind.json()["code"]) == (428, "if-match-required")
        first = (await client.get(path)).headers["etag"]
        async with rest.client("boss") as boss:
            await boss.post(f"{path}/approve")
        late = await client.patch(path, json={"args": {"amount": 2}}, headers={"If-Match": first})
        assert (late.status_code, late.json()["code"], late.json()["current"]["state"]) == (
            412,
            "version-mismatch",
            "queued",
        )
        change = {"args": {"amount": 2}, "tags": ["b"], "run_after": "2040-01-01T00:00:00Z", "priority": 3, "note": "n"}
        done = await client.patch(path, json=change, headers={"If-Match": late.headers["etag"]})
        assert done.status_code == 200, done.text
        found = done.json()
        assert (found["state"], found["args"], found["tags"], found["priority"], found["run_after"]) == (
            "pending",
            {"amount": 2},
            ["b"],
            3,
            "2040-01-01T00:00:00Z",
        )
        assert (await client.get(path)).headers["etag"] == done.headers["etag"]
        acts = (await client.get(f"{path}/attempts")).json()["acts"]
        assert [(act["verb"], act["by"], act["note"]) for act in acts] == [
            ("approve", "boss", None),
            ("edit", "root", "n"),
        ]
        now = {"If-Match": done.headers["etag"]}
        for body, code in (
            ({"args": {"amount": "much"}}, "invalid-arguments"),
            ({"run_after": "2040-01-01T00:00:00"}, "invalid-option"),
            ({"run_after": "2040-01-01T00:00:00Z", "run_in": 1}, "invalid-option"),
            ({"state": "queued"}, "invalid-request"),
        ):
            wrong = await client.patch(path, json=body, headers=now)
            assert (wrong.status_code, wrong.json()["code"]) == (422, code), wrong.text
        await client.post(f"{path}/cancel")
        ended = await client.patch(path, json={"priority": 4}, headers={"If-Match": "*"})
        assert (ended.status_code, ended.json()["code"], ended.json()["current_state"]) == (
            409,
            "invalid-transition",
            "cancelled",
        )


async def test_of_two_changes_at_once_one_is_told_of_the_other(rest: Rest) -> None:
    job = await rest.submit()
    async with rest.client() as client:
        old = {"If-Match": (await client.get(f"/jobs/{job['id']}")).headers["etag"]}
        answers = await asyncio.gather(
            *(client.patch(f"/jobs/{job['id']}", json={"priority": n + 1}, headers=old) for n in range(4))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]


@pytest.mark.parametrize("wait", [None, "wait=20"])
async def test_a_repeated_request_is_answered_with_the_first_status(rest: Rest, wait: str | None) -> None:
    """202 though the job has ended since; 200 where it was found by its key, or ended while the first one waited."""
    await rest.submit("explode", unique_key="k")
    plain = {"kind": "greet", "args": {"name": "Ada"}}
    found = {"kind": "explode", "unique_key": "k"}
    headers = {"Prefer": wait} if wait else {}
    async with rest.client() as client:
        kept = await client.post("/jobs", json=found, headers={"Idempotency-Key": "b"})
        assert (kept.status_code, kept.json()["deduplicated"]) == (200, True)
        async with rest.app.worker():
            first = await client.post("/jobs", json=plain, headers={"Idempotency-Key": "a", **headers})
            assert first.status_code == (200 if wait else 202)
            await rest.app.jobs.wait(first.json()["id"], timeout=20)
            await rest.app.jobs.wait(kept.json()["id"], timeout=20)
        for repeated in ({}, {"Prefer": "wait=5"}):
            again = await client.post("/jobs", json=plain, headers={"Idempotency-Key": "a", **repeated})
            assert (again.status_code, again.json()["state"]) == (first.status_code, "completed")
            assert (again.headers["idempotency-replayed"], again.json()["deduplicated"]) == ("true", False)
        twin = await client.post("/jobs", json=found, headers={"Idempotency-Key": "b"})
        assert (twin.status_code, twin.json()["deduplicated"], twin.json()["id"]) == (200, True, kept.json()["id"])


async def test_integers_beyond_those_of_doubles_keep_every_digit(rest: Rest) -> None:
    @rest.app.job
    async def echo(n: int, nested: dict[str, Any]) -> list[Any]:
        return [n, nested]

    large = 2**53 + 1
    args = {"n": 10**30 + 1, "nested": {"deep": [large, -large], "share": 0.1}}
    async with rest.client() as client, rest.app.worker():
        body = {"kind": "echo", "args": args, "refs": {"order": large}, "meta": {"trace": large}}
        done = await client.post("/jobs", json=body, headers={"Prefer": "wait=20"})
        assert done.status_code == 200, done.text
        job = (await client.get(f"/jobs/{done.json()['id']}")).json()
        assert (job["args"], job["result"]) == (args, [args["n"], args["nested"]])
        assert (job["refs"], job["meta"]) == ({"order": large}, {"trace": large})
        found = (await client.get("/jobs", params={"q": f"ref.order:{large}"})).json()["items"]
        assert [each["id"] for each in found] == [job["id"]]
        near = (await client.get("/jobs", params={"q": f"ref.order:{large - 1}"})).json()["items"]
        assert near == []


EXTREMES = [
    *(
        f"{field}:{text}"
        for field in ("created", "finished")
        for text in (
            ">=0001-01-01",
            ">0001-01-01",
            "<=0001-01-01",
            "<0001-01-01",
            "0001-01-01",
            ">=0001-01-01T00:00",
            "<0001-01-01T00:00:00.000001Z",
            ">=0001-01-01T00:00+14:00",
            "<=9999-12-30",
            "<=9999-12-31",
            ">9999-12-31T23:59:59.999998Z",
            "<9999-12-31T23:59:59.999998Z",
            "<9999-12-31T23:59:59.999999Z",
            ">=9999-12-31T23:59-14:00",
            "0001-01-01..9999-12-30",
            "9999-12-30..0001-01-01",
            "<36525d",
            ">36525d",
            "0s..36525d",
            ">99999d",
        )
    ),
    *(f"duration:{text}" for text in (">36525d", "<0s", "0us..36525d", ">=1us", ">1e400")),
    *(
        f"{field}:{text}"
        for field in ("priority", "attempt")
        for text in (">-2147483647", "<=2147483647", "2147483648")
    ),
    "id:9223372036854775807",
    "id:99999999999999999999",
    "args.n:1e999",
    f"args.n:{'9' * 1000}",
]


async def test_a_search_for_the_ends_of_time_and_numbers_is_answered(rest: Rest) -> None:
    await rest.submit()
    async with rest.client() as client:
        for search in EXTREMES:
            answer = await client.get("/jobs", params={"q": search})
            assert answer.status_code in (200, 400), (search, answer.text)
            bulk = await client.post("/jobs/bulk", json={"action": "cancel", "search": search, "dry_run": True})
            assert bulk.status_code < 500, (search, bulk.text)


async def test_a_search_from_the_first_day_there_is_finds_every_job(rest: Rest) -> None:
    made = await rest.submit()
    async with rest.client() as client:
        found = await client.get("/jobs", params={"q": "created:>=0001-01-01"})
        assert [job["id"] for job in found.json()["items"]] == [made["id"]]


async def test_a_repeated_submission_shows_nothing_of_a_colleagues_job(rest: Rest) -> None:
    async with rest.knows(Principal("ada", "acme", frozenset({Permission.SUBMIT}))) as ada:
        body = {"kind": "greet", "unique_key": "k"}
        await ada.post("/jobs", json={**body, "args": {"name": "hush"}})
    async with rest.knows(Principal("eve", "acme", frozenset({Permission.SUBMIT}))) as eve:
        for _ in ("first", "repeated"):
            answer = await eve.post("/jobs", json={**body, "args": {"name": "x"}}, headers={"Idempotency-Key": "i"})
            assert (answer.status_code, answer.json()["deduplicated"]) == (200, True)
            assert "hush" not in answer.text


async def test_the_previous_job_of_a_kind_is_found_within_the_tenant(rest: Rest) -> None:
    store = rest.store
    worker = await store.worker()
    mine, theirs, waiting, now = [
        await rest.submit("greet", tenant=tenant) for tenant in ("acme", "zeta", "acme", "acme")
    ]
    await store.complete(*await store.claim(worker, ids.decode(mine["id"]), ids.decode(theirs["id"])))
    other = await rest.submit("explode", tenant="acme")
    async with rest.client() as client:
        assert (await client.get(f"/jobs/{now['id']}/previous")).json()["job"]["id"] == mine["id"]
        assert (await client.get(f"/jobs/{waiting['id']}/previous")).json()["job"]["id"] == mine["id"]
        assert (await client.get(f"/jobs/{other['id']}/previous")).json() == {"job": None}


async def test_parents_and_children_of_a_step_are_told(rest: Rest) -> None:
    step: Any = rest.app.task("greet")
    started = await chain(*(step.step(name=name, times=1) for name in "abc")).enqueue()
    view = await rest.app.workflows.get(started.id)
    first, second, third = (ids.encode(each.job_id) for each in view.steps)
    async with rest.client() as client:

        async def relatives(job: str) -> list[tuple[str, str]]:
            items = (await client.get(f"/jobs/{job}/relatives")).json()["items"]
            return [(each["relation"], each["id"]) for each in items]

        assert await relatives(first) == [("child", second)]
        assert await relatives(second) == [("parent", first), ("child", third)]
        assert await relatives((await rest.submit("greet"))["id"]) == []
