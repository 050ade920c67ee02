"""Frames of real streams fit the discriminated unions of the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest  # noqa: TC002 - as everywhere
from tests.api.routes.streaming import FRAME
from tests.waiting import eventually

from rowlock import Context, Retry
from rowlock.api.schemas.events import FeedStreamEvent, JobStreamEvent
from rowlock.api.streaming import sse
from rowlock.desk.follow import feed
from rowlock.model.event import NAMES
from rowlock.model.feed import Topic

if TYPE_CHECKING:
    import httpx
    from tests.api.conftest import Rest

ROOT = Path(__file__).parent.parent.parent.parent
DOCUMENT = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
SCHEMAS = DOCUMENT["components"]["schemas"]


def names_of(union: str) -> set[str]:
    return set(SCHEMAS[union]["discriminator"]["mapping"])


def check(text: str, union: str) -> list[tuple[str, dict[str, Any]]]:
    """The frames of a stream, each checked against the one schema that its `event` chooses."""
    found = []
    for one in FRAME.finditer(text):
        event = {"event": one["event"], "data": json.loads(one["data"])} | ({"id": one["id"]} if one["id"] else {})
        schema = SCHEMAS[union]["discriminator"]["mapping"][event["event"]]
        validator = jsonschema_rs.Draft202012Validator({"components": DOCUMENT["components"], "$ref": schema})
        errors = [f"{each.instance_path}: {each.message}" for each in validator.iter_errors(event)]
        assert not errors, (event, errors)
        found.append((event["event"], event["data"]))
    return found


def test_the_unions_name_every_event() -> None:
    assert names_of("JobStreamEvent") == {*NAMES, "unavailable"}
    assert names_of("FeedStreamEvent") == {*Topic, "resync", "unavailable"}
    for path, union in (("/jobs/{job_id}/stream", "JobStreamEvent"), ("/events", "FeedStreamEvent")):
        answer = DOCUMENT["paths"][f"/api/v1{path}"]["get"]["responses"]["200"]
        assert answer["content"] == {"text/event-stream": {"schema": {"$ref": f"#/components/schemas/{union}"}}}
    assert JobStreamEvent is not FeedStreamEvent


async def ended(client: httpx.AsyncClient, job_id: str) -> str:
    """The state of a job once it has ended."""

    async def final() -> bool:
        return (await client.get(f"/jobs/{job_id}")).json()["finished_at"] is not None

    await eventually(final)
    return str((await client.get(f"/jobs/{job_id}")).json()["state"])


async def lives(rest: Rest, client: httpx.AsyncClient) -> list[str]:
    """The ids of jobs that between them have lived through everything."""

    @rest.app.job(retry=Retry(attempts=2, minimum="10ms"))
    async def second_time(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            raise OSError("not yet")

    @rest.app.job
    async def ask(ctx: Context) -> None:
        await ctx.wait_for("go", timeout="1m")

    async def order(job_id: str, verb: str, **body: object) -> None:
        answer = await client.post(f"/jobs/{job_id}/{verb}", json=body)
        assert answer.is_success, answer.text

    waiting, later = await rest.submit("pay", args={"amount": 1}), await rest.submit(run_in="1h")
    refused, asking = await rest.submit("pay", args={"amount": 2}), await rest.submit("ask")
    failing, again = await rest.submit("explode"), await rest.submit("second_time")
    walking = await rest.submit("walk", args={"steps": 3})
    sorting = await rest.submit("sort_out", args={"names": ["a", "b"]})
    async with rest.client("boss") as boss:
        assert (await boss.post(f"/jobs/{waiting['id']}/approve", json={"note": "fine"})).is_success
    await order(refused["id"], "reject", note="no")
    changed = await client.patch(f"/admin/workers/jobs/{later['id']}/priority", json={"priority": 5})
    assert changed.is_success
    await order(later["id"], "cancel", note="no longer")
    async with rest.app.worker():
        assert await ended(client, failing["id"]) == "failed"
        await order(failing["id"], "retry", note="once more")

        async def asked() -> bool:
            return bool((await client.get(f"/jobs/{asking['id']}")).json()["state"] == "blocked")

        await eventually(asked)
        await order(asking["id"], "signals/go", payload=1)
        everyone = [waiting, later, refused, asking, failing, again, walking, sorting]
        for each in everyone:
            await ended(client, each["id"])
    return [each["id"] for each in everyone]


async def test_frames_of_jobs_fit_the_document(rest: Rest) -> None:
    seen: set[str] = set()
    async with rest.client() as client:
        for job_id in await lives(rest, client):
            for params in ({}, {"last_event_id": "0"}):
                text = (await client.get(f"/jobs/{job_id}/stream", params=params)).text
                seen |= {name for name, _ in check(text, "JobStreamEvent")}
    rare = {"job.cancelling", "job.held", "job.expired"}
    assert names_of("JobStreamEvent") - seen <= rare | {"unavailable"}


async def test_frames_of_the_feed_fit_the_document(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_JITTER", 0.0)
    monkeypatch.setattr(feed, "EVERY", 0.02)
    rest.api.stream_seconds = 1.5
    async with rest.client() as client:
        first = asyncio.create_task(client.get("/events", params={"topics": "jobs,lanes,workers,stats"}))

        async def looked() -> bool:
            return rest.app.streams._streams_per_loop.current().feed._position is not None

        await eventually(looked)
        await rest.store.worker()
        job_id = await rest.store.enqueue("k")
        await rest.store.claim(await rest.store.worker(), job_id)
        seen = {name for name, _ in check((await first).text, "FeedStreamEvent")}
        assert seen == {"jobs", "lanes", "workers", "stats"}
        rest.api.stream_seconds = 0.3
        long_ago = await client.get("/events", params={"last_event_id": "1000.1:1:"})
        assert [name for name, _ in check(long_ago.text, "FeedStreamEvent")] == ["resync"]


async def test_the_frame_of_an_outage_fits_the_document(rest: Rest) -> None:
    async with rest.client(None) as client:
        problem = (await client.get("/jobs")).content
    frames = b"".join([each async for each in sse.unavailable(problem)]).decode()
    for union in ("JobStreamEvent", "FeedStreamEvent"):
        assert [name for name, _ in check(frames, union)] == ["unavailable"]
