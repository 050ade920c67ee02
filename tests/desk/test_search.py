from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Principal
from rowlock.errors import InvalidCursor, InvalidOption, InvalidSearch
from rowlock.model import ids
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock import Rowlock

LOAD = """
INSERT INTO rowlock.workers (name, host, pid, version) VALUES ('host-3', 'h', 1, '0');
INSERT INTO rowlock.lanes (name, kinds) VALUES ('bulk', '{ingest.b}'), ('default', '{*}');
INSERT INTO rowlock.jobs (id, kind, state, priority, attempt, lane, tenant, submitted_by, claimed_by, tags, refs, args,
                          errors, created_at, claimed_at, finished_at) VALUES
 (1, 'ingest.a', 'failed', 5, 3, 'bulk', 'acme', 'ada', 1, '{eu,test}', '{"project": 7}', '{"user": {"id": 42}}',
  '{"type": "TimeoutError", "message": "Timeout of 3_s"}', now() - '3 h'::interval, now() - '2 h'::interval,
  now() - '1 h'::interval),
 (2, 'ingest.b', 'queued', 0, 0, NULL, 'acme', 'bob', NULL, '{eu}', '{"project": "8"}', '{"user": {"id": "42"}}',
  NULL, now() - '90 min'::interval, NULL, NULL),
 (3, 'report', 'running', -5, 1, 'default', NULL, NULL, 1, NULL, NULL, '{"ids": [1, 2], "draft": true}',
  NULL, now() - '20 min'::interval, now() - '15 min'::interval, NULL),
 (4, 'report', 'completed', 0, 1, 'default', 'other', 'ada', 1, '{us}', NULL, '{"name": "a%b"}',
  NULL, '2026-01-02 10:00Z', '2026-01-02 10:00:01Z', '2026-01-02 10:00:03Z'),
 (5, 'asked', 'pending', 0, 0, NULL, NULL, 'eve', NULL, NULL, NULL, '{"none": null}', NULL, now(), NULL, NULL);
INSERT INTO rowlock.job_refs (name, value, job_id) VALUES ('tag', 'eu', 1), ('tag', 'test', 1), ('project', '7', 1),
 ('tag', 'eu', 2), ('project', '8', 2), ('tag', 'us', 4);
INSERT INTO rowlock.job_progress (job_id, fence, phase) VALUES (3, 0, 'editions');
"""

CASES = {
    "": [5, 4, 3, 2, 1],
    "state:failed,running": [3, 1],
    "-state:failed,running": [5, 4, 2],
    "state:completed": [4],
    "kind:ingest*": [2, 1],
    "kind:report,asked": [5, 4, 3],
    "kind:rep": [],
    "lane:bulk": [2, 1],
    "lane:default": [5, 4, 3],
    "lane:b*": [2, 1],
    "tag:eu": [2, 1],
    "tag:eu,us": [4, 2, 1],
    "tag:eu -tag:test": [2],
    "tag:e*": [2, 1],
    "-tag:*": [5, 3],
    "priority:>=5": [1],
    "priority:-10..-1": [3],
    "priority:<0,>4": [3, 1],
    "attempt:>1": [1],
    "attempt:1": [4, 3],
    "worker:host-3": [4, 3, 1],
    "-worker:*": [5, 2],
    "error:Timeout*": [1],
    "error:TimeoutError": [1],
    'error:"Timeout of 3_s"': [1],
    "error:Timeout?of*": [],
    'error:"Timeout of 3%"*': [],
    "args.user.id:42": [2, 1],
    'args.user.id:"42"': [2],
    "args.ids:2": [3],
    "args.draft:true": [3],
    "args.none:null": [5],
    "args.user:*": [2, 1],
    "-args.user:*": [5, 4, 3],
    'args.name:"a%b"': [4],
    "ref.project:7": [1],
    "ref.project:7,8": [2, 1],
    "ref.project:*": [2, 1],
    "phase:editions": [3],
    "state:running phase:edit*": [3],
    "tenant:acme": [2, 1],
    "-tenant:acme": [5, 4, 3],
    "by:ada": [4, 1],
    "created:>2h": [4, 1],
    "created:<100m": [5, 3, 2],
    "created:10m..2h": [3, 2],
    "created:2026-01-02": [4],
    "created:>2026-01-02": [5, 3, 2, 1],
    "created:<=2026-01-02T10:00": [4],
    "finished:2026-01-01..2026-01-03": [4],
    "finished:<2h": [1],
    "-finished:>1s": [5, 3, 2],
    "duration:>10m": [3, 1],
    "duration:<=2s": [4],
    "duration:>2s": [3, 1],
    "Timeout": [1],
    '"Timeout of"': [1],
    "ing": [2, 1],
    "-ing": [5, 4, 3],
    "id:3": [3],
    "id:3,99,1 state:running": [3],
    "3": [3],
    "kind:asked state:pending,queued": [5],
    "state:failed kind:ingest* lane:bulk tag:eu priority:>=5 attempt:>1 worker:host-3 error:Timeout* args.user.id:42 "
    "ref.project:7 tenant:acme by:ada created:>2h finished:<2h duration:>10m -tag:us Timeout": [1],
}


@pytest.fixture
async def found(desk: Desk) -> Any:  # noqa: ANN401 - a function
    await desk.store.execute(LOAD)

    async def numbers(text: str, sort: str = "newest") -> list[int]:
        page = await desk.app.jobs.search(text, sort=sort)
        assert (page.count.value, page.count.exact, page.cut_off) == (len(page.items), True, False)
        return [job.id for job in page.items]

    return numbers


async def test_every_term_finds_what_it_says(found: Any) -> None:  # noqa: ANN401 - as above
    for text, expected in CASES.items():
        assert await found(text) == expected, text
        assert await found(text, sort="oldest") == expected[::-1], text


async def test_a_public_id_is_found_as_such_and_as_free_text(found: Any) -> None:  # noqa: ANN401 - as above
    assert await found(f"id:{ids.encode(4)}") == await found(ids.encode(4)) == [4]


async def test_pages_lead_on_and_back_without_gaps_or_repeats(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO rowlock.jobs (kind) SELECT 'k' FROM generate_series(1, 7)")
    jobs = desk.app.jobs
    for sort, order in (("newest", [7, 6, 5, 4, 3, 2, 1]), ("oldest", [1, 2, 3, 4, 5, 6, 7])):
        pages = [await jobs.search("kind:k", limit=3, sort=sort)]
        while pages[-1].next:
            pages.append(await jobs.search("kind:k", limit=3, after=pages[-1].next, sort=sort))
        assert [[job.id for job in page.items] for page in pages] == [order[:3], order[3:6], order[6:]]
        assert pages[0].previous is None
        assert {page.count.value for page in pages} == {7}
        back = pages[-1]
        for expected in (order[3:6], order[:3]):
            back = await jobs.search("kind:k", limit=3, after=back.previous, sort=sort)
            assert [job.id for job in back.items] == expected
        assert back.previous is None
        onward = await jobs.search("kind:k", limit=3, after=back.next, sort=sort)
        assert [job.id for job in onward.items] == order[3:6]


async def test_the_way_back_from_an_empty_page_leads_to_where_one_came_from(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO rowlock.jobs (kind) SELECT 'k' FROM generate_series(1, 3)")
    jobs = desk.app.jobs
    first = await jobs.search(limit=2)
    await desk.store.execute("DELETE FROM rowlock.jobs WHERE id = 1")
    empty = await jobs.search(limit=2, after=first.next)
    assert (empty.items, empty.next) == ([], None)
    back = await jobs.search(limit=2, after=empty.previous)
    assert [job.id for job in back.items] == [3, 2]


async def test_a_cursor_belongs_to_its_search(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO rowlock.jobs (kind) SELECT 'k' FROM generate_series(1, 3)")
    jobs = desk.app.jobs
    after = (await jobs.search("kind:k", limit=1)).next
    assert after is not None
    assert len((await jobs.search("  kind:k", limit=1, after=after)).items) == 1
    for text, sort, cursor in (("kind:j", "newest", after), ("kind:k", "oldest", after)):
        with pytest.raises(InvalidCursor, match="another search or another order"):
            await jobs.search(text, limit=1, after=cursor, sort=sort)
    for damaged in (after[:-2], "A" + after[1:], "", "ü", "x" * 5):
        with pytest.raises(InvalidCursor, match="no cursor"):
            await jobs.search("kind:k", limit=1, after=damaged)


async def test_what_cannot_be_asked_is_refused(app: Rowlock) -> None:
    with pytest.raises(InvalidSearch, match=r"Did you mean state:failed\?"):
        await app.jobs.search("state:fail")
    with pytest.raises(InvalidOption, match="limit must be from 1 to 1000"):
        await app.jobs.search(limit=0)
    with pytest.raises(InvalidOption, match="sort must be one of newest, oldest"):
        await app.jobs.search(sort="kind")


async def test_a_search_that_looked_far_enough_says_so_and_can_be_continued(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock.desk.search._SCAN", 10)
    await desk.store.execute(
        "INSERT INTO rowlock.jobs (kind, state, finished_at) "
        "SELECT CASE WHEN n = 3 THEN 'needle' ELSE 'hay' END, 'completed', now() FROM generate_series(1, 25) n"
    )
    page = await desk.app.jobs.search("kind:needle")
    assert (list(page.items), page.cut_off, str(page.count)) == ([], True, "0+")
    seen = 1
    while page.next and not page.items:
        page = await desk.app.jobs.search("kind:needle", after=page.next)
        seen += 1
    assert ([job.id for job in page.items], page.cut_off, page.next, seen) == ([3], False, None, 3)
    whole = await desk.app.jobs.search("kind:hay", limit=8)
    assert (len(whole.items), whole.cut_off, whole.count.capped) == (8, False, True)


async def test_counts_stop_at_their_cap(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock.desk.search._CAP", 5)
    await desk.store.execute("INSERT INTO rowlock.jobs (kind) SELECT 'k' FROM generate_series(1, 6)")
    assert str((await desk.app.jobs.search("kind:k")).count) == "5+"
    assert str((await desk.app.jobs.search("kind:k id:1,2,3,4,5")).count) == "5"


async def test_more_than_a_few_are_found_by_the_walk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.store.execute(LOAD)
    monkeypatch.setattr("rowlock.desk.search._FEW", 0)
    for text in ("state:failed,running", "finished:<2h", "tag:eu,us", "state:pending kind:asked"):
        assert [job.id for job in (await desk.app.jobs.search(text)).items] == CASES.get(text, [5]), text


async def test_what_is_out_of_sight_is_not_found(desk: Desk) -> None:
    await desk.store.execute(LOAD)
    reader = Principal("ada", tenant="acme", permissions=frozenset({Permission.READ}))
    for text, expected in (("", [2, 1]), ("by:ada", [1]), ("id:4", []), ("tag:us", []), ("state:pending", [])):
        page = await desk.app.desk(reader).jobs.search(text)
        assert ([job.id for job in page.items], page.count.value) == (expected, len(expected)), text


async def test_the_index_on_arguments_leads_to_few(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.store.execute(LOAD)
    monkeypatch.setattr("rowlock.desk.search._DEAR_SCAN", 2)
    assert (await desk.app.jobs.search("args.user.id:42")).cut_off
    statements = desk.app.database().statements
    await desk.store.execute(statements["create_args_index"].text)
    monkeypatch.setattr("rowlock.desk.search._DEAR_SCAN", 100)
    page = await desk.app.jobs.search("args.user.id:42 -by:bob")
    assert ([job.id for job in page.items], page.cut_off) == ([1], False)
    await desk.store.execute(statements["drop_args_index"].text)
    assert (await desk.app.database().fetch("args_index"))[0]["valid"] is None


async def test_ids_near_a_time_are_found_by_halving(desk: Desk) -> None:
    await desk.store.execute(
        "INSERT INTO rowlock.jobs (kind, created_at) SELECT 'k', now() - (10000 - n) * interval '1 min' "
        "FROM generate_series(1, 10000) n"
    )
    await desk.store.execute("DELETE FROM rowlock.jobs WHERE id BETWEEN 4000 AND 6000")
    for minutes in (1, 500, 3500, 5000, 9999):
        at = await desk.store.value("SELECT now() - $1 * interval '1 min'", minutes)
        row = await desk.store.one("search_id_at", at=at)
        first = await desk.store.value("SELECT min(id) FROM rowlock.jobs WHERE created_at >= $1", at)
        last = await desk.store.value("SELECT coalesce(max(id), 0) FROM rowlock.jobs WHERE created_at < $1", at)
        assert row["low"] < first
        assert row["high"] > last
        assert row["high"] - row["low"] <= 100 or row["low"] >= 3999
    page = await desk.app.jobs.search("created:<1h")
    assert page.count.value == 60
    assert not page.cut_off


async def test_a_search_that_finds_nothing_says_what_may_be_meant(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO {s}.kinds (name) VALUES ('ingest'), ('report')")
    await desk.lane("reports", kinds=("report",))
    await desk.store.enqueue("ingest")
    jobs = desk.app.jobs
    assert (await jobs.search("kind:ingst,report -tag:x")).suggestion == "kind:ingest,report -tag:x"
    assert (await jobs.search("lane:report")).suggestion == "lane:reports"
    for text in ("kind:ingest", "kind:report", "kind:zzzz", "kind:ings*", "tag:ingst"):
        assert (await jobs.search(text)).suggestion is None, text
    reader = desk.app.desk(Principal("ada", permissions=frozenset({Permission.READ, Permission.READ_ALL})))
    assert (await reader.jobs.search("lane:report")).suggestion is None
