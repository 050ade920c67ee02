"""The feed: every change in sight, told once, and from where a client stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import opened, several
from tests.waiting import eventually

from rowlock.desk.follow import feed
from rowlock.errors import Forbidden, InvalidOption
from rowlock.model import ids
from rowlock.model.access import Permission, Principal
from rowlock.model.feed import FeedFilter, FeedPosition, Topic
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.desk.conftest import Desk

    from rowlock import Rowlock
    from rowlock.desk.access import Desk as PrincipalDesk
    from rowlock.desk.follow.feed import FeedSubscriber

READER = frozenset({Permission.READ})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "EVERY", 0.02)


class Heard:
    """What a listener was told: (event, id) of every change, frames by name, and the last position."""

    def __init__(self, listener: FeedSubscriber) -> None:
        self.listener = listener
        self.changes: list[tuple[str, int]] = []
        self.frames: list[tuple[str, Any]] = []
        self.position = ""

    async def until(self, *wanted: tuple[str, int]) -> list[tuple[str, int]]:
        """Read on until all of these were told, in whatever order between jobs."""
        async with asyncio.timeout(20):
            while not set(wanted) <= set(self.changes):
                await self.read()
        return self.changes

    async def read(self) -> None:
        for frame in await self.listener.next():
            self.position = str(frame.position or self.position)
            if frame.name is not None:
                self.frames.append((frame.name, frame.data))
            for change in frame.data.get("changes", ()):  # type: ignore[attr-defined]  # of jobs
                self.changes.append((change["event"].removeprefix("job."), ids.decode(change["id"])))


async def begun(app: Rowlock | PrincipalDesk, wanted: FeedFilter | None = None, after: str | None = None) -> Heard:
    heard = Heard(await app.streams.listen(wanted, after=after))
    async with asyncio.timeout(20):
        while not heard.position:
            await heard.read()
    return heard


async def test_a_job_is_told_at_each_change_and_once(desk: Desk) -> None:
    store = desk.store
    heard = await begun(desk.app)
    worker, job_id = await store.worker(), await store.enqueue()
    await heard.until(("created", job_id))
    (claim,) = await store.claim(worker, job_id)
    await heard.until(("claimed", job_id))
    await store.give_back(claim, delay=3600)
    await heard.until(("queued", job_id))
    await desk.app.jobs.reprioritise(job_id, 3)
    await heard.until(("queued", job_id))
    await desk.app.jobs.cancel(job_id)
    last = await store.enqueue()
    await heard.until(("cancelled", job_id), ("created", last))
    assert len(heard.changes) == len(set(heard.changes)) + (heard.changes.count(("queued", job_id)) - 1)
    assert heard.changes.count(("cancelled", job_id)) == heard.changes.count(("created", job_id)) == 1
    heard.listener.close()


async def test_a_commit_that_comes_late_is_told_and_nothing_twice(desk: Desk, database_url: str) -> None:
    """Written before the look, committed after it; inside a savepoint too."""
    async with several(database_url, 2) as (slow, nested):
        heard = await begun(desk.app)
        first, second = slow.connection.transaction(), nested.connection.transaction()
        await first.start()
        late = await slow.enqueue()
        await second.start()
        async with nested.connection.transaction():
            inner = await nested.enqueue()
        soon = await desk.store.enqueue()
        await heard.until(("created", soon))
        assert {("created", late), ("created", inner)}.isdisjoint(heard.changes)
        await first.commit()
        await second.commit()
        await heard.until(("created", late), ("created", inner))
        final = await desk.store.enqueue()
        await heard.until(("created", final))
    assert sorted(heard.changes) == [("created", one) for one in sorted((late, inner, soon, final))]
    heard.listener.close()


async def test_a_client_that_comes_back_to_another_process_misses_nothing(
    desk: Desk, make_app: Callable[..., Rowlock], database_url: str
) -> None:
    heard = await begun(desk.app)
    store, worker = desk.store, await desk.store.worker()
    done, running = await store.enqueue(), await store.enqueue()
    await heard.until(("created", done), ("created", running))
    async with opened(database_url) as slow:
        transaction = slow.connection.transaction()
        await transaction.start()
        late = await slow.enqueue()
        claims = await store.claim(worker, done, running)
        await heard.until(("claimed", done), ("claimed", running))
        heard.listener.close()
        await transaction.commit()
    await store.complete(claims[0])
    missed = await store.enqueue()
    other = Heard(await make_app().streams.listen(after=heard.position))
    await other.until(("completed", done), ("created", missed), ("created", late))
    last = await store.enqueue()
    await other.until(("created", last))
    told = [change for change in other.changes if change[1] != last]
    assert sorted(told) == sorted([("completed", done), ("created", missed), ("created", late)])
    other.listener.close()


async def test_an_attempt_that_came_and_went_unseen_is_told(desk: Desk) -> None:
    """Between two looks, and while nobody listened: the queue has no index by time, but the attempt left its row."""
    store, worker = desk.store, await desk.store.worker()
    job_id = await store.enqueue()
    heard = await begun(desk.app)
    await store.execute("UPDATE {s}.jobs SET created_at = created_at - interval '1 hour'")
    looks = desk.app.streams._streams_per_loop.current().feed
    async with looks._looking:
        await store.give_back(*await store.claim(worker, job_id), delay=0)
    await heard.until(("queued", job_id))
    heard.listener.close()
    await store.give_back(*await store.claim(worker, job_id), delay=3600)
    back = await begun(desk.app, after=heard.position)
    assert back.changes == [("queued", job_id)]
    back.listener.close()


async def test_an_order_inside_a_savepoint_is_told_once_it_is_committed(desk: Desk, database_url: str) -> None:
    """A look passes while it is written; its row then has a number that no snapshot lists."""
    store = desk.store
    job_id = await store.enqueue()
    await store.complete(*await store.claim(await store.worker(), job_id))
    heard = await begun(desk.app)
    async with opened(database_url) as slow:
        transaction = slow.connection.transaction()
        await transaction.start()
        await slow.execute("SELECT pg_current_xact_id()")
        async with slow.connection.transaction():
            await slow.retry(job_id)
        soon = await store.enqueue()
        await heard.until(("created", soon))
        await transaction.commit()
    await heard.until(("queued", job_id))
    heard.listener.close()


async def test_a_position_too_old_or_too_much_news_is_a_resync(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for after in ("1000000000000.1:1:", "9000000000000.1:1:"):
        heard = Heard(await desk.app.streams.listen(after=after))
        await heard.read()
        assert heard.frames[0][0] == "resync"
        assert str(FeedPosition.parse(heard.position)) == heard.position
        heard.listener.close()
    heard = await begun(desk.app)
    monkeypatch.setattr(feed, "MOST", 3)
    await asyncio.gather(*(desk.app.streams.listen() for _ in range(2)))
    await desk.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 5)")
    async with asyncio.timeout(20):
        while not heard.frames:
            await heard.read()
    assert heard.frames[0][0] == "resync"
    nonsense_of_the_database = ("1.0:1:", "1.5:1:", "1.2:5:9", "1.2:5:5", "1.2:9:5,4")
    for nonsense in ("x", "1.2", "1.1:1:x", "99999999999999999.1:1:", *nonsense_of_the_database):
        with pytest.raises(InvalidOption):
            await desk.app.streams.listen(after=nonsense)


async def test_who_reads_too_slowly_is_told_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "QUEUE", 2)
    heard = await begun(desk.app)
    looks = desk.app.streams._streams_per_loop.current().feed
    before = looks.looks

    async def looked() -> bool:
        return looks.looks >= before + 5

    await eventually(looked)
    await heard.read()
    assert heard.frames[0][0] == "resync"
    job_id = await desk.store.enqueue()
    await heard.until(("created", job_id))
    heard.listener.close()


@pytest.mark.parametrize(
    ("tenant", "subject", "permissions", "sees"),
    [
        ("acme", "ada", READER, {"acme-ada", "acme-bob"}),
        ("blue", "ada", READER, {"blue-ada"}),
        (None, "ada", READER, {"none-ada"}),
        (None, "bob", READER, set()),
        (None, "eve", READER | {Permission.READ_ALL}, {"acme-ada", "acme-bob", "blue-ada", "none-ada"}),
    ],
)
async def test_only_jobs_in_sight_are_told(
    desk: Desk, tenant: str | None, subject: str, permissions: frozenset[Permission], sees: set[str]
) -> None:
    mine = desk.app.desk(Principal(subject, tenant, permissions))
    all_of_it, heard = await begun(desk.app), await begun(mine)
    made: dict[str, int] = {}
    for owner in ("acme-ada", "acme-bob", "blue-ada", "none-ada"):
        of, by = owner.split("-")
        made[owner] = await desk.store.enqueue(tenant=None if of == "none" else of, submitted_by=by)
    await all_of_it.until(*(("created", job_id) for job_id in made.values()))
    expected = {("created", made[owner]) for owner in sees}
    await heard.until(*expected)
    assert set(heard.changes) == expected
    listed = {job.id for job in await mine.jobs.list()}
    assert {made[owner] for owner in sees} == listed


async def test_schedules_and_operations_come_as_a_whole_to_those_who_may_see_them(desk: Desk) -> None:
    @desk.app.job("k")
    async def k() -> None: ...

    await desk.app.schedules.create("nightly", "k", every="1h", tenant="acme")
    await desk.app.schedules.create("weekly", "k", every="7d", tenant="zeta")
    wanted = FeedFilter(frozenset({Topic.SCHEDULES, Topic.OPERATIONS}))
    ada = desk.app.desk(Principal("ada", "acme", READER | {Permission.SCHEDULES_VIEW, Permission.CANCEL}))
    everything, own = Heard(await desk.app.streams.listen(wanted)), Heard(await ada.streams.listen(wanted))

    async def last(heard: Heard, topic: str, done: Callable[[Any], bool]) -> Any:  # noqa: ANN401 - of a frame
        async with asyncio.timeout(30):
            while True:
                frames = [data["items"] for name, data in heard.frames if name == topic]
                if frames and done(frames[-1]):
                    return frames[-1]
                await heard.read()

    assert [each.name for each in await last(everything, "schedules", bool)] == ["nightly", "weekly"]
    assert [each.name for each in await last(own, "schedules", bool)] == ["nightly"]
    await desk.app.schedules.pause("nightly")
    await last(everything, "schedules", lambda items: not items[0].enabled)
    await last(own, "schedules", lambda items: not items[0].enabled)
    jobs = [await desk.store.enqueue(tenant="acme", submitted_by="ada") for _ in range(2)]
    seen = await ada.operations.preview("cancel", ids=jobs)
    order = await ada.operations.start("cancel", ids=jobs, filter_hash=seen.filter_hash, expected_max=2)
    for heard in (everything, own):
        (operation,) = await last(heard, "operations", lambda items: bool(items) and items[0].is_final)
        assert (operation.id, operation.done) == (order.id, 2)
    await desk.app.operations.start(
        "retry",
        ids=jobs,
        filter_hash=(await desk.app.operations.preview("retry", ids=jobs)).filter_hash,
        expected_max=2,
    )
    await last(everything, "operations", lambda items: len(items) == 2)
    assert {len(data["items"]) for name, data in own.frames if name == "operations"} <= {0, 1}


async def test_topics_need_their_permission(desk: Desk) -> None:
    for permissions, topics in (
        (READER, "lanes"),
        (READER, "workers"),
        (READER, "stats"),
        (READER, "schedules"),
        (frozenset(), "jobs"),
        (frozenset(), "operations"),
    ):
        nobody = desk.app.desk(Principal("ada", None, permissions))
        with pytest.raises(Forbidden):
            await nobody.streams.listen(FeedFilter(frozenset({Topic(topics)})))


async def test_filters_leave_out_the_rest(desk: Desk) -> None:
    wanted = FeedFilter(kinds=frozenset({"b"}), states=frozenset({State.COMPLETED}))
    heard, everything = await begun(desk.app, wanted), await begun(desk.app)
    worker = await desk.store.worker()
    one, two = await desk.store.enqueue("a"), await desk.store.enqueue("b")
    await desk.store.complete(*await desk.store.claim(worker, one, two))
    await everything.until(("completed", one))
    assert await heard.until(("completed", two)) == [("completed", two)]


async def test_lanes_workers_and_statistics_come_as_a_whole(desk: Desk) -> None:
    await desk.lane("reports", kinds=("r",))
    heard = Heard(await desk.app.streams.listen(FeedFilter(frozenset({Topic.LANES, Topic.WORKERS, Topic.STATS}))))
    async with asyncio.timeout(20):
        while {name for name, _ in heard.frames} != {"lanes", "workers", "stats"}:
            await heard.read()
        first = next(data for name, data in heard.frames if name == "lanes")
        assert [lane.name for lane in first["items"]] == ["reports"]
        await desk.app.lanes.drain("reports")
        await desk.worker("late")
        heard.frames.clear()
        while {name for name, _ in heard.frames} != {"lanes", "workers"}:
            await heard.read()
    heard.listener.close()


async def test_hundred_feeds_share_one_look(desk: Desk) -> None:
    heard = [await begun(desk.app) for _ in range(100)]
    looks = desk.app.streams._streams_per_loop.current().feed
    before, job_id = looks.looks, await desk.store.enqueue()
    await asyncio.gather(*(one.until(("created", job_id)) for one in heard))
    assert looks.looks - before <= 10
    for one in heard:
        one.listener.close()


@pytest.mark.parametrize("walk", ["created", "ended", "claimed", "given back", "acted"])
async def test_what_a_cut_walk_may_have_left_out_is_a_resync(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, walk: str
) -> None:
    """Others' changes fill the walk, and nobody who listens sees them; mine is behind them."""
    store, mine = desk.store, desk.app.desk(Principal("ada", "acme", READER))
    worker, tenants = await store.worker(), ("acme", *["blue"] * 4)
    jobs = [await store.enqueue(tenant=tenant) for tenant in tenants]
    await store.execute("UPDATE {s}.jobs SET created_at = created_at - interval '1 hour'")
    heard = await begun(mine)
    heard.listener.close()
    for job_id, tenant in zip(jobs, tenants, strict=True):
        match walk:
            case "created":
                await store.enqueue(tenant=tenant)
            case "ended":
                await store.complete(*await store.claim(worker, job_id))
            case "claimed":
                await store.claim(worker, job_id)
            case "given back":
                await store.give_back(*await store.claim(worker, job_id), delay=3600)
            case _:
                await desk.app.jobs.reprioritise(job_id, 3)
    monkeypatch.setattr(feed, "WALK", 3)
    back = await begun(mine, after=heard.position)
    assert [name for name, _ in back.frames] == ["resync"]
    back.listener.close()
    monkeypatch.setattr(feed, "WALK", 6)
    again = await begun(mine, after=heard.position)
    assert [(name, len(data["changes"])) for name, data in again.frames] == [("jobs", 1)]
    again.listener.close()
