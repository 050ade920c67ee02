"""The stream of one job: everything that happened, in order and once, whoever asks and from wherever they go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.desk.follow.streams import names, streamed
from tests.factories import ORDER

from rowlock.desk.follow import job_poll
from rowlock.errors import InvalidOption, JobNotFound
from rowlock.model import ids
from rowlock.model.event import NAMES, StreamEvent, StreamPosition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.desk.conftest import Desk
    from tests.factories import Store

    from rowlock.desk.follow.stream import JobStream


async def plain(store: Store) -> int:
    job_id = await store.enqueue()
    await store.complete(*await store.claim(await store.worker(), job_id))
    return job_id


async def retried(store: Store) -> int:
    job_id, worker = await store.enqueue(), await store.worker()
    await store.give_back(*await store.claim(worker, job_id))
    await store.give_back(*await store.claim(worker, job_id), outcome="snoozed", refund=1)
    await store.complete(*await store.claim(worker, job_id), state="completed_with_errors")
    return job_id


async def approved(store: Store) -> int:
    job_id = await store.enqueue(approval=True)
    await store.approve(job_id)
    await store.complete(*await store.claim(await store.worker(), job_id))
    return job_id


async def cancelled_while_running(store: Store) -> int:
    job_id = await store.enqueue()
    claims = await store.claim(await store.worker(), job_id)
    await store.cancel_running(job_id)
    await store.complete(*claims, state="cancelled")
    return job_id


async def stopped_and_reopened(store: Store) -> int:
    job_id, worker = await store.enqueue(), await store.worker()
    await store.claim(worker, job_id)
    await store.stop(job_id)
    await store.retry(job_id)
    await store.complete(*await store.claim(worker, job_id), state="failed")
    await store.retry(job_id)
    await store.cancel_waiting(job_id)
    await store.retry(job_id)
    await store.complete(*await store.claim(worker, job_id))
    return job_id


async def rejected(store: Store) -> int:
    job_id = await store.enqueue(approval=True)
    await store.reject(job_id)
    return job_id


async def lost(store: Store) -> int:
    job_id, worker = await store.enqueue(), await store.worker()
    await store.claim(worker, job_id)
    await store.silence(worker)
    assert await store.rescue() == [job_id]
    await store.execute("UPDATE {s}.jobs SET run_after = now() WHERE id = $1", job_id)
    await store.complete(*await store.claim(await store.worker(), job_id))
    return job_id


async def parked_and_released(store: Store) -> int:
    await store.gate("g")
    worker = await store.worker()
    first, job_id = await store.enqueue(gate_key="g"), await store.enqueue(gate_key="g")
    claims = await store.claim(worker, first, job_id)
    await store.complete(*claims)
    await store.complete(*await store.claim(worker, job_id))
    return job_id


async def expired(store: Store) -> int:
    job_id = await store.enqueue()
    await store.execute("UPDATE {s}.jobs SET expires_at = now() - interval '1 s' WHERE id = $1", job_id)
    assert await store.expire() == [job_id]
    await store.retry(job_id)
    await store.cancel_waiting(job_id)
    return job_id


async def reported(store: Store) -> int:
    job_id, worker = await store.enqueue(), await store.worker()
    (claim,) = await store.claim(worker, job_id)
    await store.report(claim)
    await store.complete(claim)
    return job_id


async def reprioritised(store: Store) -> int:
    job_id = await store.enqueue()
    await store.fetch("reprioritise", ids=[job_id], priority=7, **ORDER)
    await store.complete(*await store.claim(await store.worker(), job_id))
    return job_id


LIVES: dict[Callable[[Store], Awaitable[int]], str] = {
    plain: "created claimed completed end",
    retried: "created claimed retrying claimed retrying claimed completed_with_errors end",
    approved: "created approved claimed completed end",
    cancelled_while_running: "created claimed cancelling cancelled end",
    stopped_and_reopened: (
        "created claimed cancelled reopened claimed failed reopened cancelled reopened claimed completed end"
    ),
    rejected: "created cancelled end",
    lost: "created claimed retrying claimed completed end",
    parked_and_released: "created claimed completed end",
    expired: "created expired reopened cancelled end",
    reported: "created claimed progress completed end",
    reprioritised: "created updated claimed completed end",
}


async def lived(
    store: Store,
    life: Callable[[Store], Awaitable[int]],
    monkeypatch: pytest.MonkeyPatch,
    after_each: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Live it, with acts under the verbs that the desk writes."""
    run = store.fetch

    async def fetch(name: str, /, **values: Any) -> Any:  # noqa: ANN401 - as the original
        verb = {"cancel_waiting": "cancel", "cancel_running": "cancel", "reprioritise": "priority"}.get(name, name)
        answer = await run(name, **(values | ({"verb": verb} if "verb" in values else {})))
        if after_each is not None:
            await after_each()
        return answer

    monkeypatch.setattr(store, "fetch", fetch)
    return await life(store)


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
async def test_a_life_is_told_from_the_rows_alone_and_from_every_event_on(
    desk: Desk, life: Callable[[Store], Awaitable[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await lived(desk.store, life, monkeypatch)
    events = await streamed(desk, job_id)
    assert names(events) == LIVES[life].split()
    assert {event.name for event in events} <= set(NAMES)
    for n, event in enumerate(events[:-1]):
        rest = await streamed(desk, job_id, str(event.position))
        assert [(one.name, one.data, one.position) for one in rest] == [
            (one.name, one.data, one.position) for one in events[n + 1 :]
        ]
    async with await desk.app.streams.follow(job_id, after=str(events[-1].position)) as again:
        assert again.over


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
async def test_a_life_is_told_alike_while_it_happens(
    desk: Desk, life: Callable[[Store], Awaitable[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each statement another stream goes on from where the one before it stopped."""
    seen: list[StreamEvent] = []

    async def look() -> None:
        job_id = await desk.store.value("SELECT max(id) FROM rowlock.jobs")
        if job_id is not None:
            after = str(seen[-1].position) if seen and seen[-1].data["id"] == ids.encode(job_id) else "0"
            async with await desk.app.streams.follow(job_id, after=after) as stream:
                seen.extend(await stream.next(0.1))

    job_id = await lived(desk.store, life, monkeypatch, look)
    if seen[-1].name != "end":
        seen += await streamed(desk, job_id, str(seen[-1].position))
    # Ends that were undone since were told as such, and what a gate did was seen while it lasted.
    mine = [event for event in seen if event.data["id"] == ids.encode(job_id)]
    ends = names(mine).count("end")
    assert [name for name in names(mine) if name not in ("end", "updated")] == [
        name for name in LIVES[life].split() if name not in ("end", "updated")
    ]
    assert ends == 1 + LIVES[life].split().count("reopened")


async def test_a_snapshot_comes_first_and_then_only_what_is_new(desk: Desk) -> None:
    store = desk.store
    job_id, worker = await store.enqueue(), await store.worker()
    (claim,) = await store.claim(worker, job_id)
    await store.report(claim)
    async with await desk.app.streams.follow(job_id) as following, asyncio.timeout(20):
        (first,) = await following.next()
        assert (first.name, str(first.position)) == ("snapshot", "2.0.1.0")
        assert first.data["job"] == await desk.app.jobs.get(job_id)
        await store.report(claim)
        (second,) = await following.next()
        assert (second.name, str(second.position)) == ("job.progress", "2.0.2.0")
        await store.complete(claim)
        assert names(await following.next()) == ["completed", "end"]
        assert await following.next() == []


async def test_a_finished_job_shows_itself_and_ends(desk: Desk) -> None:
    job_id = await plain(desk.store)
    assert names(await streamed(desk, job_id, None)) == ["snapshot", "end"]


async def test_a_job_parked_and_released_is_told_to_whoever_looks(desk: Desk) -> None:
    store = desk.store
    await store.gate("g")
    worker = await store.worker()
    first, job_id = await store.enqueue(gate_key="g"), await store.enqueue(gate_key="g")
    async with await desk.app.streams.follow(job_id) as following, asyncio.timeout(20):
        assert names(await following.next()) == ["snapshot"]
        claims = await store.claim(worker, first, job_id)
        (parked,) = await following.next()
        assert (parked.name, parked.data["state"]) == ("job.updated", "blocked")
        await store.complete(*claims)
        (released,) = await following.next()
        assert (released.name, released.data["state"]) == ("job.updated", "queued")


async def test_what_a_person_did_is_told_with_who_and_why(desk: Desk) -> None:
    job_id = await desk.store.enqueue(approval=True)
    await desk.app.jobs.approve(job_id, by="ada", note="fine")
    await desk.app.jobs.reprioritise(job_id, 5, by="bob")
    await desk.app.jobs.cancel(job_id, by="cleo", note="not needed")
    created, approved_, updated, cancelled, _ = await streamed(desk, job_id)
    assert created.data["state"] == "pending"
    assert {"by": "ada", "note": "fine"}.items() <= approved_.data.items()
    assert {"by": "bob", "priority": 5}.items() <= updated.data.items()
    assert {"by": "cleo", "note": "not needed", "state": "cancelled"}.items() <= cancelled.data.items()


async def test_a_retry_after_the_end_goes_on_from_the_end(desk: Desk) -> None:
    job_id = await plain(desk.store)
    end = (await streamed(desk, job_id))[-1]
    await desk.app.jobs.retry(job_id, by="ada")
    await desk.store.complete(*await desk.store.claim(await desk.store.worker(), job_id))
    assert names(await streamed(desk, job_id, str(end.position))) == ["reopened", "claimed", "completed", "end"]


async def test_a_position_no_job_can_have_had_begins_anew(desk: Desk) -> None:
    job_id = await plain(desk.store)
    assert names(await streamed(desk, job_id, "99.0.0.0")) == ["snapshot", "end"]
    for nonsense in ("x", "1.2", "1.2.3.4.5", "-1", "1.0.0.0;"):
        with pytest.raises(InvalidOption, match="id of an event"):
            await desk.app.streams.follow(job_id, after=nonsense)
    assert StreamPosition.parse(str(StreamPosition(3, 1, 2, 4, ended=True))) == StreamPosition(3, 1, 2, 4, ended=True)


async def test_a_long_history_is_told_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_poll, "MOST", 3)
    store = desk.store
    job_id, worker = await store.enqueue(), await store.worker()
    for _ in range(10):
        await store.give_back(*await store.claim(worker, job_id), outcome="snoozed", refund=1)
    await store.complete(*await store.claim(worker, job_id))
    expected = ["created", *["claimed", "retrying"] * 10, "claimed", "completed", "end"]
    assert names(await streamed(desk, job_id)) == expected


async def test_a_removed_job_ends_its_stream_and_an_unknown_one_has_none(desk: Desk) -> None:
    job_id = await desk.store.enqueue()
    async with await desk.app.streams.follow(job_id) as following, asyncio.timeout(20):
        await following.next()
        await desk.store.execute("DELETE FROM {s}.jobs WHERE id = $1", job_id)
        (end,) = await following.next()
    assert (end.name, end.data["reason"]) == ("end", "removed")
    with pytest.raises(JobNotFound):
        await desk.app.streams.follow(job_id)


async def rest_of(stream: JobStream) -> list[StreamEvent]:
    """Every event to the end: a look may come between the claim and the outcome."""
    events: list[StreamEvent] = []
    while not stream.done:
        events += await stream.next()
    return events


async def test_two_hundred_streams_share_one_poll_and_one_listener(desk: Desk) -> None:
    app, store = desk.app, desk.store
    job_ids = [await store.enqueue() for _ in range(200)]
    streams = [await app.streams.follow(job_id) for job_id in job_ids]
    async with asyncio.timeout(20):
        await asyncio.gather(*(stream.next() for stream in streams))
        here = app._resources.streams_per_loop.current().job_poll
        before = here.looks
        waiting = [asyncio.ensure_future(rest_of(stream)) for stream in streams]
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"
        assert await store.value(count, "rowlock:listen") == 1
        await store.complete(*await store.claim(await store.worker(), *job_ids))
        ends = await asyncio.gather(*waiting)
    assert all(names(events)[-2:] == ["completed", "end"] for events in ends)
    # One look per stream would be two hundred; a slow machine makes a few more than the two that are needed.
    assert here.looks - before <= 20
    for stream in streams:
        stream.close()


async def test_closing_ends_every_stream_at_once(desk: Desk) -> None:
    job_id = await desk.store.enqueue()
    following = await desk.app.streams.follow(job_id)
    async with asyncio.timeout(20):
        await following.next()
        waiting = asyncio.ensure_future(following.next())
        desk.app.streams.close()
        assert await waiting == []
        assert following.done
        late = await desk.app.streams.follow(job_id)
        assert await late.next() == []
    following.close()


async def test_the_first_stream_of_a_process_that_already_stops_ends_at_once(desk: Desk) -> None:
    job_id = await desk.store.enqueue()
    desk.app.streams.close()
    async with asyncio.timeout(20):
        late = await desk.app.streams.follow(job_id)
        assert (await late.next(), late.done) == ([], True)
