"""Failure groups: counted over retries and ends, by tenant, muted and retried as one."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.factories import several
from tests.waiting import eventually

from rowlock.errors import InvalidOption
from rowlock.model import ids
from rowlock.model.access import ALL, Permission, Principal
from rowlock.model.failure_group import MOST_GROUPS

if TYPE_CHECKING:
    import httpx
    from tests.api.conftest import Rest
    from tests.factories import Store


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"


def error(message: str, kind: str) -> str:
    return json.dumps({"reason": "failed", "type": kind, "message": message, "traceback": f"File … {message}"})


async def fail(
    rest: Rest, message: str, *, retry: bool = False, tenant: str | None = None, kind: str = "OSError"
) -> str:
    """A job that fails with this message, for good or until it is tried again."""
    store = rest.store
    job = await rest.submit("explode", **({"tenant": tenant} if tenant else {}))
    (claim,) = await store.claim(await store.worker(), ids.decode(job["id"]))
    written = {"channel": store.database.channel, "ids": [claim.job_id], "fences": [claim.fence]}
    if retry:
        zeros = {"deaths": [0], "delays": [0.0], "refunds": [0]}
        lines = {"states": ["queued"], "outcomes": ["failed"], "errors": [error(message, kind)]}
        await store.one("give_back", **written, **zeros, **lines)
    else:
        await store.one("complete", **written, states=["failed"], results=[None], errors=[error(message, kind)])
    return str(job["id"])


async def groups(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of the query
    answer = await client.get("/failures", params=params)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


async def test_failures_are_grouped_by_cause_over_retries_and_ends(rest: Rest) -> None:
    first = await fail(rest, "order 17 has no address 'Main St 4'")
    await fail(rest, "order 4711 has no address 'Elm St 12'", retry=True)
    last = await fail(rest, 'order 5 has no address "x"')
    other = await fail(rest, "order 5 has no address", kind="ValueError")
    async with rest.client() as client:
        addresses, values = sorted(await groups(client), key=lambda group: -group["within"])
        assert (addresses["failed"], addresses["retried"], addresses["within"]) == (2, 1, 3)
        assert (addresses["kind"], addresses["type"], addresses["state"]) == ("explode", "OSError", "open")
        assert addresses["message"] == "order <n> has no address <text>"
        assert (sum(addresses["steps"]), addresses["steps"][-1]) == (3, 3)
        assert addresses["last_job_id"] == last
        assert (values["type"], values["last_job_id"]) == ("ValueError", other)
        whole = (await client.get(f"/failures/{addresses['fingerprint']}")).json()
        assert whole["sample"]["traceback"].startswith("File … order")
        found = (await client.get("/jobs", params={"q": f"fingerprint:{addresses['fingerprint']}"})).json()
        assert [job["id"] for job in found["items"]] == [last, first]  # the one that is tried again has not failed
        missing = await client.get("/failures/none")
        assert (missing.status_code, missing.json()["code"]) == (404, "failure-group-not-found")


async def test_a_group_is_retried_as_one(rest: Rest) -> None:
    jobs = {await fail(rest, f"host {n} is down") for n in range(3)}
    await fail(rest, "another cause")
    async with rest.client() as client:
        (group,) = [each for each in await groups(client) if each["within"] == 3]
        order = {"action": "retry", "search": f"fingerprint:{group['fingerprint']}"}
        seen = (await client.post("/jobs/bulk", json={**order, "dry_run": True})).json()
        assert seen["count"] == {"value": 3, "exact": True}
        assert {job["id"] for job in seen["samples"]} == jobs


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("row 1 of 20", "row 300 of 4,000.5", True),
        ("job 6f1c2d3e-0000-4000-8000-123456789abc", "job 00000000-1111-2222-3333-444444444444", True),
        ("at 0x7f3b2c", "at 0xdeadbeef", True),
        ("commit 9f8e7d6c5b4a", "commit 1234567890ab", True),
        ("no file 'a b'", 'no file "c"', True),
        ("can't open 'a'", "can't open 'b'", True),
        ("can't open it", "can't close it", False),
        ("deadbeats", "facade", False),
    ],
)
async def test_what_differs_from_one_failure_to_the_next_is_left_out(
    rest: Rest, one: str, two: str, *, same: bool
) -> None:
    said = [await rest.store.value("SELECT {s}.failure_message($1)", text) for text in (one, two)]
    assert (said[0] == said[1]) is same, said


async def test_a_tenant_sees_and_mutes_its_own_failures_only(rest: Rest) -> None:
    await fail(rest, "order 1 of acme", tenant="acme")
    await fail(rest, "order 2 of acme", tenant="zeta")
    acme = Principal("ada", "acme", permissions=ALL - {Permission.READ_ALL})
    async with rest.knows(acme) as client:
        (group,) = await groups(client)
        assert group["within"] == 1
        muted = (await client.post(f"/failures/{group['fingerprint']}/mute", json={"note": "known"})).json()
        assert (muted["state"], muted["muted_by"], muted["note"]) == ("muted", "ada", "known")
        assert await groups(client, state="open") == []
    async with rest.knows(Principal("zoe", "zeta", permissions=ALL - {Permission.READ_ALL})) as client:
        (theirs,) = await groups(client)
        assert (theirs["state"], theirs["muted_by"]) == ("open", None)
        sample = (await client.get(f"/failures/{group['fingerprint']}")).json()["sample"]
        assert sample["message"] == "order 2 of acme"
    async with rest.knows(Principal("bo", None, permissions=ALL - {Permission.READ_ALL})) as client:
        assert await groups(client) == []
        assert (await client.post(f"/failures/{group['fingerprint']}/mute")).status_code == 404
    async with rest.client() as client:
        (whole,) = await groups(client)
        assert (whole["within"], whole["state"]) == (2, "open")
        await client.post(f"/failures/{group['fingerprint']}/mute")
        assert [each["state"] for each in await groups(client, state="muted")] == ["muted"]
        opened = (await client.post(f"/failures/{group['fingerprint']}/unmute")).json()
        assert (opened["state"], opened["note"]) == ("open", None)
        audit = (await client.get("/audit", params={"target": f"failure:{group['fingerprint']}"})).json()["items"]
        assert [entry["action"] for entry in audit] == ["failure.unmute", "failure.mute", "failure.mute"]


async def test_groups_beyond_the_most_of_a_kind_are_one(rest: Rest) -> None:
    store = rest.store
    await store.execute(
        "INSERT INTO {s}.failure_increments (job_id, n, ended, fingerprint, kind, tenant) "
        "SELECT n, 1, true, 'f' || n, 'k', '' FROM generate_series(1, 12) AS n"
    )
    await store.one("fold_failures", only=None, batch=100, groups=10)
    async with rest.client() as client:
        found = await groups(client, limit=500)
        (rest_of_them,) = [group for group in found if group["other"]]
        assert (len(found), rest_of_them["failed"]) == (11, 2)
        assert sum(group["failed"] for group in found) == 12
        await store.execute(
            "INSERT INTO {s}.failure_increments (job_id, n, ended, fingerprint, kind, tenant) "
            "VALUES (1, 1, true, 'f1', 'k', ''), (1, 1, true, 'new', 'k', ''), (1, 1, true, 'new', 'j', '')"
        )
        await store.one("fold_failures", only=None, batch=100, groups=10)
        assert len(await groups(client, limit=500)) == 12
    assert MOST_GROUPS > 100


async def test_two_folds_at_once_count_a_failure_once(database_url: str) -> None:
    async with several(database_url, 2) as (one, two):
        await one.execute(
            "INSERT INTO {s}.failure_increments (job_id, n, ended, fingerprint, kind, tenant) "
            "VALUES (1, 3, true, 'f', 'k', '')"
        )
        async with one.connection.transaction():
            assert (await one.one("fold_failures", only=None, batch=10, groups=10))["folded"] == 1
            assert (await two.one("fold_failures", only=None, batch=10, groups=10))["folded"] == 0
        assert (await two.one("fold_failures", only=None, batch=10, groups=10))["folded"] == 0
        assert await two.value("SELECT failed FROM {s}.failure_groups") == 3


async def increments(store: Store) -> int:
    return int(await store.value("SELECT coalesce(sum(n), 0) FROM {s}.failure_increments"))


async def test_only_failures_write_increments(rest: Rest) -> None:
    store = rest.store
    worker = await store.worker()
    for state in ("completed", "completed_with_errors", "cancelled"):
        await store.complete(*await store.claim(worker, await store.enqueue()), state=state)
    waiting = await store.enqueue()
    await store.cancel_waiting(waiting)
    assert await increments(store) == 0
    job = await store.enqueue()
    await store.complete(*await store.claim(worker, job), state="failed")
    assert await increments(store) == 1
    await store.retry(job)
    await store.execute("UPDATE {s}.jobs SET meta = '{}'")
    assert await increments(store) == 1


async def test_groups_without_a_failure_for_a_month_are_forgotten(rest: Rest) -> None:
    store = rest.store
    await fail(rest, "long ago")
    async with rest.client() as client:
        assert len(await groups(client)) == 1
        await store.execute("UPDATE {s}.failure_groups SET last_seen = now() - interval '32 days'")
        await store.execute("UPDATE {s}.failures_by_hour SET since = since - interval '32 days'")
        await store.one("prune_failures", only=None)
        assert await groups(client, window="31d") == []
    assert await store.value("SELECT count(*) FROM {s}.failures_by_hour") == 0


async def test_orders_and_limits_that_there_are_not_are_refused(rest: Rest) -> None:
    with pytest.raises(InvalidOption, match="sort must be one of recent, count, new"):
        await rest.app.failures.list(sort="old")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="limit must be from 1 to 500"):
        await rest.app.failures.list(limit=0)
    with pytest.raises(InvalidOption, match="window must be longer than 0"):
        await rest.app.failures.list(window="0s")


async def test_a_group_is_muted_after_the_failures_that_are_being_counted(rest: Rest) -> None:
    await fail(rest, "x", tenant="acme")
    async with rest.client() as client:
        (group,) = await groups(client)
        await fail(rest, "x", tenant="acme")
        counting = await asyncpg.connect(rest.store.database.url)
        try:
            transaction = counting.transaction()
            await transaction.start()
            assert await counting.fetchval("SELECT rowlock.failures_fold(10, 500)") == 1
            muting = asyncio.create_task(client.post(f"/failures/{group['fingerprint']}/mute", json={}))
            await eventually(lambda: rest.store.value(WAITING))
            assert not muting.done()
            await transaction.commit()
            assert (await muting).json()["failed"] == 2
        finally:
            await counting.close()
