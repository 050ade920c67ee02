"""Suggestions while a search is typed, and counts by state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock.model import ids
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    import httpx
    from tests.api.conftest import Rest


async def suggested(client: httpx.AsyncClient, q: str, **params: Any) -> list[str]:  # noqa: ANN401 - of the query
    answer = await client.get("/search/suggest", params={"q": q, **params})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [q[: found["start"]] + each["text"] + q[found["end"] :] for each in found["items"]]


async def labelled(rest: Rest) -> None:
    store = rest.store
    await rest.app.lanes.create("front", kinds=["greet"])
    await store.worker("web-1")
    await store.kind("greet", "retry")
    await store.kind("gate open", "retry")
    for tenant, tag in (("acme", "eu"), ("acme", "eu west"), ("zeta", "europe")):
        await rest.submit("explode", tenant=tenant, tags=[tag], refs={"project": 7, "page": tag})
    await store.execute(
        "INSERT INTO {s}.failure_groups (fingerprint, tenant, kind, first_seen, last_seen, error) "
        "VALUES ('f00d', 'acme', 'k', now(), now(), '{\"type\": \"OSError\"}'), "
        "('f11d', 'zeta', 'k', now(), now(), '{\"type\": \"OverflowError\"}')"
    )
    await store.execute("INSERT INTO {s}.count_series VALUES ('k', '', 'acme'), ('k', '', 'acre')")


async def test_fields_states_and_names_are_suggested_by_their_beginning(rest: Rest) -> None:
    await labelled(rest)
    async with rest.client() as client:
        assert (await suggested(client, ""))[:2] == ["id:", "state:"]
        assert await suggested(client, "fin") == ["fingerprint:", "finished:"]
        assert await suggested(client, "gr") == ["kind:greet"]
        assert await suggested(client, "lane:fro -st") == ["lane:fro -state:"]
        assert await suggested(client, "state:comp") == ["state:completed", "state:completed_with_errors"]
        assert await suggested(client, "state:failed,q") == ["state:failed,queued"]
        assert await suggested(client, "state:fai lane:x", cursor_position=9) == ["state:failed lane:x"]
        assert await suggested(client, "kind:g") == ['kind:"gate open"', "kind:greet"]
        assert await suggested(client, 'kind:"gate o') == ['kind:"gate open"']
        assert await suggested(client, "lane:fr") == ["lane:front"]
        assert await suggested(client, "worker:web") == ["worker:web-1"]
        assert await suggested(client, "tag:eu") == ["tag:eu", 'tag:"eu west"', "tag:europe"]
        assert await suggested(client, "ref.p") == ["ref.page:", "ref.project:"]
        assert await suggested(client, "ref.project:") == ["ref.project:7"]
        assert sorted(await suggested(client, "error:O")) == ["error:OSError", "error:OverflowError"]
        assert await suggested(client, "fingerprint:f0") == ["fingerprint:f00d"]
        assert await suggested(client, "tenant:ac") == ["tenant:acme", "tenant:acre"]
        assert await suggested(client, "priority:") == []
        assert await suggested(client, "nothing:x") == []


async def test_nothing_of_other_tenants_is_suggested(rest: Rest) -> None:
    await labelled(rest)
    narrow = ALL - {Permission.READ_ALL, Permission.WORKERS_VIEW}
    async with rest.knows(Principal("ada", "acme", permissions=narrow)) as client:
        assert await suggested(client, "tag:") == ["tag:eu", 'tag:"eu west"']
        assert await suggested(client, "ref.") == ["ref.page:", "ref.project:"]
        assert await suggested(client, "ref.page:e") == ["ref.page:eu", 'ref.page:"eu west"']
        assert await suggested(client, "error:") == ["error:OSError"]
        assert await suggested(client, "fingerprint:") == ["fingerprint:f00d"]
        assert await suggested(client, "tenant:") == ["tenant:acme"]
        assert await suggested(client, "lane:") == []
        assert await suggested(client, "worker:") == []
    async with rest.knows(Principal("bo", None, permissions=narrow)) as client:
        assert await suggested(client, "tag:") == []
        assert await suggested(client, "error:") == []


@pytest.mark.parametrize("q", ['"', "-", ":", 'kind:"a\\', "args.", "a b  ", ",", "ref.:", "ref.a:" + "," * 50])
async def test_a_search_that_cannot_be_read_yet_is_no_mistake(rest: Rest, q: str) -> None:
    async with rest.client() as client:
        for position in range(len(q) + 2):
            await suggested(client, q, cursor_position=position)


async def test_jobs_of_a_search_are_counted_by_state(rest: Rest) -> None:
    store = rest.store
    worker = await store.worker()
    for state in ("failed", "completed", "completed"):
        job = await rest.submit("explode", tenant="acme")
        await store.complete(*await store.claim(worker, ids.decode(job["id"])), state=state)
    await rest.submit("explode", tenant="zeta")
    await rest.submit("greet", tenant="acme")

    async def counted(client: httpx.AsyncClient, q: str) -> dict[str, int]:
        answer = await client.get("/search/counts", params={"q": q})
        assert answer.status_code == 200, answer.text
        states = answer.json()["states"]
        assert len(states) == 9
        assert all(count["exact"] for count in states.values())
        return {state: count["value"] for state, count in states.items() if count["value"]}

    async with rest.client() as client:
        assert await counted(client, "") == {"failed": 1, "completed": 2, "queued": 2}
        assert await counted(client, "kind:explode state:failed") == {"failed": 1, "completed": 2, "queued": 1}
        refused = await client.get("/search/counts", params={"q": "stat:x"})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-search")
    async with rest.knows(Principal("ada", "acme", permissions=ALL - {Permission.READ_ALL})) as client:
        assert await counted(client, "kind:explode") == {"failed": 1, "completed": 2}


async def test_a_count_by_state_stops_at_its_cap(rest: Rest) -> None:
    await rest.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 1001)")
    async with rest.client() as client:
        states = (await client.get("/search/counts")).json()["states"]
    assert states["queued"] == {"value": 1000, "exact": False}
    assert states["failed"] == {"value": 0, "exact": True}
