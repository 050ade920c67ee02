"""Streams over the wire: frames, headers, resuming, permissions, how long they live and how they end."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.routes.streaming import FRAME
from tests.waiting import eventually, until

from rowlock.api import RowlockAPI
from rowlock.api.auth import TokenAuth
from rowlock.api.streaming import sse
from rowlock.desk.follow import feed
from rowlock.model import ids
from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    import httpx
    from starlette.requests import HTTPConnection
    from tests.api.conftest import Rest

READ = frozenset({Permission.READ})


def frames(text: str) -> list[tuple[str, str, Any]]:
    assert text.startswith("retry: 2000\n\n")
    return [(one["event"], one["id"], json.loads(one["data"])) for one in FRAME.finditer(text)]


async def finished(rest: Rest) -> str:
    store = rest.store
    job_id = await store.enqueue(submitted_by="ada")
    await store.complete(*await store.claim(await store.worker(), job_id))
    return ids.encode(job_id)


async def test_a_finished_job_shows_itself_and_ends_and_is_over_then(rest: Rest) -> None:
    job_id = await finished(rest)
    async with rest.client() as client:
        answer = await client.get(f"/jobs/{job_id}/stream")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
        (snapshot, at, job), (end, last, about) = frames(answer.text)
        assert (snapshot, at, end, last) == ("snapshot", "3.0.0.0", "end", "3.0.0.0.end")
        shown = (await client.get(f"/jobs/{job_id}")).json()
        assert (job["id"], job["state"], about["state"]) == (job_id, "completed", "completed")
        assert job.keys() == shown.keys()
        over = await client.get(f"/jobs/{job_id}/stream", headers={"Last-Event-ID": last})
        assert (over.status_code, over.content) == (204, b"")


async def test_a_stream_goes_on_behind_the_id_it_is_given(rest: Rest) -> None:
    job_id = await finished(rest)
    async with rest.client() as client:
        whole = frames((await client.get(f"/jobs/{job_id}/stream", params={"last_event_id": "0"})).text)
        assert [name for name, _, _ in whole] == ["job.created", "job.claimed", "job.completed", "end"]
        for n, (_, at, _) in enumerate(whole[:-1]):
            rest_of_it = await client.get(f"/jobs/{job_id}/stream", headers={"Last-Event-ID": at})
            assert frames(rest_of_it.text) == whole[n + 1 :]
        refused = await client.get(f"/jobs/{job_id}/stream", headers={"Last-Event-ID": "yesterday"})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-option")


async def test_what_is_out_of_sight_has_no_stream(rest: Rest) -> None:
    job_id = await finished(rest)
    expected = {
        "ada": (READ, None, 200),
        "bob": (READ, None, 404),
        "eve": (frozenset(), None, 403),
        "cleo": (READ, "acme", 404),
    }
    for subject, (permissions, tenant, status) in expected.items():
        async with rest.knows(Principal(subject, tenant, permissions)) as client:
            assert (await client.get(f"/jobs/{job_id}/stream")).status_code == status
    async with rest.client(None) as client:
        assert (await client.get(f"/jobs/{job_id}/stream")).status_code == 401
    async with rest.knows(Principal("ada", None, READ)) as client:
        assert (await client.get("/events", params={"topics": "workers"})).status_code == 403
        strange = await client.get("/events", params={"topics": "weather"})
        assert (strange.status_code, strange.json()["code"]) == (422, "invalid-option")
        assert (await client.get("/events", params={"last_event_id": "1.2"})).status_code == 422


async def open_streams(client: httpx.AsyncClient, rest: Rest) -> list[asyncio.Task[httpx.Response]]:
    """One stream of each sort that would last for ever."""
    job_id = ids.encode(await rest.store.enqueue(submitted_by="ada"))
    return [asyncio.create_task(client.get(path)) for path in (f"/jobs/{job_id}/stream", "/events")]


async def ended(streams: list[asyncio.Task[httpx.Response]]) -> list[str]:
    async with asyncio.timeout(20):
        return [answer.text for answer in await asyncio.gather(*streams)]


async def test_a_stream_ends_when_whoever_reads_may_no_longer(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "PERMISSION_CHECK_INTERVAL", 0.05)
    asked, authenticate = Counter[str](), rest.people.authenticate

    async def counted(connection: HTTPConnection) -> Principal | None:
        asked[connection.url.path] += 1
        return await authenticate(connection)

    async def checked() -> bool:
        """Each when it was opened, and twice since."""
        return len(asked) == len(streams) and min(asked.values()) >= 3

    monkeypatch.setattr(rest.people, "authenticate", counted)
    async with rest.knows(Principal("ada", None, READ)) as client:
        streams = await open_streams(client, rest)
        await eventually(checked)
        assert not any(one.done() for one in streams)
        rest.people.known["ada"] = Principal("ada")
        texts = await ended(streams)
    assert [name for name, _, _ in frames(texts[0])] == ["snapshot"]


async def test_a_revoked_token_has_no_stream_a_few_seconds_later(rest: Rest) -> None:
    assert sse.PERMISSION_CHECK_INTERVAL < 5
    rest.api = RowlockAPI(rest.app, auth=TokenAuth(rest.app))
    made = await rest.app.tokens.create("ci", roles=["operator"])
    async with rest.client() as client:
        client.headers["Authorization"] = f"Bearer {made.text}"
        streams = await open_streams(client, rest)
        await eventually(functools.partial(_open_streams, rest, 2))
        await rest.app.tokens.revoke(made.token.id)
        await ended(streams)  # within twenty seconds on a busy machine; a minute when only the lifetime ends them
        assert rest.api.stream_limits.open == 0


async def _open_streams(rest: Rest, number: int) -> bool:
    return rest.api.stream_limits.open == number


@pytest.mark.parametrize(
    "demoted",
    [
        Principal("ada", None, READ),
        Principal("ada", "acme", READ | {Permission.READ_ALL}),
        Principal("ada", None, frozenset()),
    ],
)
async def test_nothing_is_sent_with_rights_that_were_taken_away(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, demoted: Principal
) -> None:
    """Demotion ends the feed before the next event. The client comes back and gets what it may read then."""
    monkeypatch.setattr(sse, "PERMISSION_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(feed, "EVERY", 0.05)
    async with rest.knows(Principal("ada", None, READ | {Permission.READ_ALL})) as client:
        stream = asyncio.create_task(client.get("/events"))
        feeds = rest.app._resources.streams_per_loop
        await eventually(functools.partial(_open_streams, rest, 1))
        looks = feeds.current().feed.looks
        await until(lambda: feeds.current().feed.looks > looks + 1)
        rest.people.known["ada"] = demoted
        foreign = ids.encode(await rest.store.enqueue(submitted_by="bob", tenant="globex"))
        (text,) = await ended([stream])
        assert foreign not in text
        assert rest.api.stream_limits.open == 0


async def test_inside_a_host_a_stream_lives_for_a_while(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_JITTER", 0.0)
    monkeypatch.setattr(sse, "KEEPALIVE_INTERVAL", 0.05)
    monkeypatch.setattr(feed, "EVERY", 0.02)
    assert rest.api.stream_seconds == sse.LIFETIME
    rest.api.stream_seconds = 0.5
    async with rest.client() as client:
        one, everything = await ended(await open_streams(client, rest))
    assert ": alive" in one
    assert re.search(r"\n\nid: \d+\.\d+:\d+:\S*\n\n", everything)


async def test_a_position_may_list_as_many_open_transactions_as_there_are(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "_JITTER", 0.0)
    rest.api.stream_seconds = 0.0
    listed = ",".join(str(4_000_000_000 + n) for n in range(500))
    position = f"1763291644360.4000000000:4000000500:{listed}"
    async with rest.client() as client:
        for how in ({"headers": {"Last-Event-ID": position}}, {"params": {"last_event_id": position}}):
            answer = await client.get("/events", **how)  # type: ignore[arg-type]  # one or the other
            assert answer.status_code == 200


async def test_streams_end_at_once_when_they_are_closed(rest: Rest) -> None:
    async with rest.client() as client:
        streams = await open_streams(client, rest)
        rest.api.close_streams()
        await ended(streams)
        # One that comes now is told to come back, with 200: a browser gives up at anything else.
        (late, _) = await ended(await open_streams(client, rest))
        assert late == "retry: 2000\n\n"


async def test_a_stream_that_nobody_reads_any_more_is_noticed_and_let_go(rest: Rest) -> None:
    async with rest.client() as client:
        streams = await open_streams(client, rest)
        here = rest.app.streams._streams_per_loop.current()

        async def followed() -> bool:
            return bool(here.job_poll._followed and here.feed._subscribers)

        await eventually(followed)
        for one in streams:
            one.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        assert (here.job_poll._followed, here.feed._subscribers) == ({}, set())


async def test_events_carry_jobs_lanes_workers_and_statistics(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_JITTER", 0.0)
    monkeypatch.setattr(feed, "EVERY", 0.02)
    rest.api.stream_seconds = 1.5
    async with rest.client() as client:
        first = asyncio.create_task(client.get("/events", params={"topics": "jobs,lanes,workers,stats", "kind": "k"}))

        async def looked() -> bool:
            return rest.app.streams._streams_per_loop.current().feed._position is not None

        await eventually(looked)
        other, mine = await rest.store.enqueue("other"), await rest.store.enqueue("k")
        told = frames((await ended([first]))[0])
        assert {name for name, _, _ in told} == {"jobs", "lanes", "workers", "stats"}
        ((_, position, data),) = [one for one in told if one[0] == "jobs"]
        assert [(one["event"], one["id"]) for one in data["changes"]] == [("job.created", ids.encode(mine))]
        assert 0 <= data["lag"] < 60
        rest.api.stream_seconds = 0.2
        await rest.store.complete(*await rest.store.claim(await rest.store.worker(), other, mine))
        again = frames((await client.get("/events", headers={"Last-Event-ID": position})).text)
        ids_ = {one["id"]: one["event"] for _, _, data in again for one in data["changes"]}
        assert ids_ == {ids.encode(other): "job.completed", ids.encode(mine): "job.completed"}
