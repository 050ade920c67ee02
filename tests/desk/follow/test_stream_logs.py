"""Lines of a job's log in its stream: between the transitions of their attempt, and none lost on the way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.desk.follow.streams import names, streamed

from rowlock.desk.follow import job_poll
from rowlock.desk.follow import stream as job_stream

if TYPE_CHECKING:
    import pytest
    from tests.desk.conftest import Desk
    from tests.factories import Store

    from rowlock.model.event import StreamEvent
    from rowlock.model.job import Claim


async def test_lines_of_its_log_come_between_the_transitions_of_their_attempt(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_stream, "LINES", 3)
    store, worker = desk.store, await desk.store.worker()
    job_id = await store.enqueue()
    for n in range(2):
        (claim,) = await store.claim(worker, job_id)
        await store.report(claim)
        await write_lines(store, claim, 4)
        await (store.complete(claim) if n else store.give_back(claim))
    first, second = await streamed(desk, job_id), await streamed(desk, job_id, "2.0.0.0")
    attempt = ["claimed", "log", "log", "log", "log"]
    assert names(first) == ["created", *attempt, "retrying", *attempt, "progress", "completed", "end"]
    assert second == first[2:]
    lines = [event.data["message"] for event in first if event.name == "job.log"]
    assert lines == [f"line {n}" for n in (1, 2, 3, 4)] * 2


async def test_a_line_is_told_while_the_job_runs(desk: Desk) -> None:
    store, worker = desk.store, await desk.store.worker()
    job_id = await store.enqueue()
    (claim,) = await store.claim(worker, job_id)
    async with await desk.app.streams.follow(job_id) as following, asyncio.timeout(20):
        await following.next()
        await store.report(claim)
        await write_lines(store, claim, 1)
        events: list[StreamEvent] = []
        while "log" not in names(events):
            events += await following.next()
    assert str(events[-1].position).split(".")[3] == str(claim.fence * 2**32 + 1)


async def test_a_line_between_the_snapshot_and_the_first_look_is_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines before the snapshot are in the stored log; none of the others is lost, nor told twice."""
    store, look = desk.store, job_poll.JobPoll._look
    job_id = await store.enqueue()
    (claim,) = await store.claim(await store.worker(), job_id)
    await store.report(claim)
    await write_lines(store, claim, 2)

    late = [4]

    async def look_late(self: job_poll.JobPoll) -> None:
        if late:  # only the first look: the test's own connection takes one statement at a time
            await write_lines(store, claim, late.pop())
        await look(self)

    monkeypatch.setattr(job_poll.JobPoll, "_look", look_late)
    events = await streamed(desk, job_id, None, until="job.progress")
    assert names(events) == ["snapshot", "log", "log", "progress"]
    assert [event.data["message"] for event in events[1:3]] == ["line 3", "line 4"]
    # A position of another life begins anew as well.
    await store.complete(claim)
    assert names(await streamed(desk, job_id, "9.0.0.0")) == ["snapshot", "end"]


async def write_lines(store: Store, claim: Claim, n: int) -> None:
    await store.fetch(
        "write_logs",
        ids=[claim.job_id],
        fences=[claim.fence],
        line_ids=[claim.job_id] * n,
        numbers=[claim.fence * 2**32 + line for line in range(1, n + 1)],
        moments=[await store.clock()] * n,
        levels=[20] * n,
        loggers=["shop"] * n,
        messages=[f"line {line}" for line in range(1, n + 1)],
    )
