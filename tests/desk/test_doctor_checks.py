from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rowlock.desk import doctor_checks
from rowlock.desk.doctor import Doctor
from rowlock.model import ids
from rowlock.model.count import Count
from rowlock.model.lane import Lane
from rowlock.model.workload import Backlog, LaneLoad, SetAsideRowView, SetAsideView, Status, WorkerStatus, WorkerView
from rowlock.settings import Settings
from rowlock.store.connections.probes import PoolerCheck
from rowlock.store.schema.migrate import SchemaStatus

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock.model.doctor_finding import Finding

NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)
NONE, SESSIONS, SWAPS = PoolerCheck(False, False), PoolerCheck(True, False), PoolerCheck(True, True)
SERVER: dict[str, Any] = {
    "version": "18.4",
    "number": 180004,
    "standby": False,
    "autovacuum": "on",
    "track_counts": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": 100,
    "reserved": 3,
    "connected": 10,
    "ours": 8,
}
TABLE = {"name": "jobs", "unvacuumed": False, "live": 10, "dead": 0, "last_autovacuum": None}
OLD = {"what": "process 7", "who": "psql", "state": "idle", "age": timedelta(hours=2)}
PENDING: dict[str, Any] = {"id": 7, "n": 1000, "age": timedelta(days=2), "roles": "operator"}
SLOT = {"name": "old", "bytes": 5_000_000_000, "holds_rows": True}
QUIET: dict[str, Any] = {"id": 7, "n": 2, "lane": "front", "stall_after": None, "age": timedelta(hours=2)}
ASIDE = SetAsideView(7, "finish", "canceled due to lock timeout", timedelta(minutes=1), "process 7 (psql)")
ROW = SetAsideRowView("worker 3", "prune_workers", "no", timedelta(minutes=1))
QUEUE: dict[str, Any] = {"usage": 0.5, "pid": 7, "who": "psql", "age": timedelta(hours=2)}
ORPHANS = {"name": "orphans", "age": timedelta(hours=1)}


def worker(**values: Any) -> WorkerStatus:  # noqa: ANN401 - fields of many types
    given: dict[str, Any] = {"id": 1, "name": "w1", "host": "h", "pid": 1, "version": "0.1.0", "lanes": None}
    given |= {"kinds": ["greet"], "started_at": NOON, "seen_at": NOON, "state": "up", "silent": False, "running": 0}
    return WorkerStatus(WorkerView(**given | values), [], [])


def lane(*, enabled: bool = True, **values: Any) -> LaneLoad:  # noqa: ANN401 - as above
    given: dict[str, Any] = {"running": 0, "slots": 10, "workers": 1, "due": Count(), "scheduled": Count()}
    return LaneLoad(Lane("front", enabled=enabled), **given | {"oldest_wait": None} | values)


def status(*workers: WorkerStatus, lanes: tuple[LaneLoad, ...] = (), unserved: tuple[Backlog, ...] = ()) -> Status:
    return Status(NOON, lanes, workers, unserved)


@pytest.mark.parametrize(
    ("finding", "verdict", "text"),
    [
        (doctor_checks.pooler(NONE, Settings()), "ok", "none"),
        (doctor_checks.pooler(SESSIONS, Settings()), "ok", "session mode"),
        (doctor_checks.pooler(SWAPS, Settings()), "fail", "ROWLOCK_POOLED=on"),
        (doctor_checks.pooler(SWAPS, Settings(pooled=True)), "warn", "ROWLOCK_DIRECT_URL"),
        (doctor_checks.pooler(SWAPS, Settings(pooled=True, direct_url="x")), "ok", "transaction mode"),
        (doctor_checks.pooler(NONE, Settings(pooled=True)), "warn", "there is no pooler"),
        (doctor_checks.version(SERVER), "ok", "18.4"),
        (doctor_checks.version(SERVER | {"version": "14.2", "number": 140002}), "fail", "needs 15 or newer"),
        (doctor_checks.version(SERVER | {"standby": True}), "fail", "the URL of the primary"),
        (doctor_checks.clock(timedelta(seconds=-90), timedelta()), "warn", "1m30s behind this machine"),
        (doctor_checks.clock(timedelta(seconds=1), timedelta()), "ok", "within 1000 ms"),
        (doctor_checks.connections(SERVER, 2), "ok", "10 of 97, 8 of them Rowlock's; 2 workers may use 8"),
        (doctor_checks.connections(SERVER, 25), "warn", "max_connections"),
        (doctor_checks.vacuum(SERVER, [TABLE]), "ok", "0 dead rows"),
        (doctor_checks.vacuum(SERVER | {"autovacuum": "off"}, []), "fail", "autovacuum is off"),
        (doctor_checks.vacuum(SERVER, [TABLE | {"unvacuumed": True}]), "fail", "off for jobs"),
        (doctor_checks.vacuum(SERVER, [TABLE | {"dead": 2_000_000}]), "warn", "2,000,000 dead rows"),
        (doctor_checks.schema(SchemaStatus(0, 2, 0, ()), "rowlock"), "fail", "rowlock schema upgrade"),
        (doctor_checks.schema(SchemaStatus(1, 2, 0, ()), "rowlock"), "fail", "rowlock schema upgrade"),
        (doctor_checks.schema(SchemaStatus(9, 2, 2, ()), "rowlock"), "warn", "newer rowlock"),
        (doctor_checks.schema(SchemaStatus(4, 2, 3, ()), "rowlock"), "fail", "newer rowlock"),
        (doctor_checks.schema(SchemaStatus(2, 2, 1, ()), "rowlock"), "ok", "version 2"),
        (doctor_checks.transactions([]), "ok", "none"),
        (doctor_checks.transactions([OLD]), "warn", "process 7 (psql, idle) for 2h"),
        (doctor_checks.slots([]), "ok", "no replication slot"),
        (doctor_checks.slots([SLOT]), "warn", "old (4.7 GB of log, dead rows)"),
        (doctor_checks.oldest([]), "ok", "no job"),
        (doctor_checks.oldest([{"id": 7, "kind": "greet", "age": timedelta(minutes=9)}]), "warn", ids.encode(7)),
        (doctor_checks.oldest([{"id": 7, "kind": "greet", "age": timedelta(seconds=9)}]), "ok", "for 9s"),
        (doctor_checks.pending([PENDING], 1000), "warn", "1,000+ jobs await it"),
        (doctor_checks.pending([PENDING], 1000), "warn", "the roles operator may"),
        (doctor_checks.pending([PENDING | {"roles": None}], 1000), "warn", "no role may"),
        (doctor_checks.held([{"id": 7, "n": 2}], 1000), "warn", "2 jobs are held"),
        (
            doctor_checks.quarantined([{"id": 7, "n": 2, "age": timedelta(hours=1)}]),
            "warn",
            "2 jobs ended their worker",
        ),
        (doctor_checks.quarantined([{"id": None, "n": 0, "age": None}]), "ok", "no recent failure"),
        (doctor_checks.upkeep([ORPHANS], status(worker())), "warn", "orphans was 1h ago"),
        (doctor_checks.upkeep([ORPHANS], status()), "ok", "rests"),
        (*doctor_checks.set_aside(status(worker())), "ok", "no row is"),
        (*doctor_checks.set_aside(status(worker(set_aside=[ASIDE], set_aside_count=3))), "warn", "3 jobs wait"),
        (*doctor_checks.set_aside(status(worker(set_aside=[ASIDE], set_aside_count=3))), "warn", "for 1m: its finish"),
        (*doctor_checks.set_aside(status(worker(set_aside=[ASIDE], set_aside_count=3))), "warn", "process 7 (psql)"),
        (*doctor_checks.set_aside(status(worker(set_aside_rows=[ROW]))), "warn", "passes over worker 3"),
        (*doctor_checks.set_aside(status(worker(set_aside_rows=[ROW]))), "warn", "for 1m: its prune_workers fails: no"),
        (doctor_checks.notify_queue([QUEUE | {"usage": 0.0}]), "ok", "is read"),
        (doctor_checks.notify_queue([QUEUE]), "warn", "50% full"),
        (doctor_checks.notify_queue([QUEUE]), "warn", "process 7 (psql) has been in a transaction for 2h"),
    ],
)
def test_what_is_read_is_judged(finding: Finding, verdict: str, text: str) -> None:
    assert finding.verdict == verdict
    assert text in f"{finding.says} {finding.do}"
    assert bool(finding.do) == (verdict != "ok")


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        (doctor_checks.workers(status()), "none"),
        (doctor_checks.workers(status(lanes=(lane(due=Count(3)),))), "none, and jobs are waiting"),
        (doctor_checks.workers(status(worker(), worker(silent=True, name="w2", running=4))), "15 s: w2 (4 jobs)"),
        (doctor_checks.workers(status(worker(stuck=2))), "w1 (2 slots)"),
        (doctor_checks.workers(status(worker(), worker(version="0.2.0"))), "0.1.0, 0.2.0"),
        (doctor_checks.lanes(status(worker(), lanes=(lane(enabled=False, due=Count(3)),))), "lanes resume front"),
        (doctor_checks.lanes(status(worker(), lanes=(lane(workers=0),))), "no live worker serves front"),
        (
            doctor_checks.kinds(status(worker(), unserved=(Backlog("pay", None, due=Count(2)),)), [], None),
            "no lane serves pay, and 2 jobs wait",
        ),
        (doctor_checks.kinds(status(worker()), [Backlog("old.name", "front")], None), "no live worker knows old.name"),
        (doctor_checks.kinds(status(worker()), [], ["greet", "wave"]), "no live worker knows wave of this application"),
        (doctor_checks.durability(SERVER | {"fsync": "off"}), "fsync off"),
        (doctor_checks.stalls([QUIET]), f"2 jobs of front report nothing, {ids.encode(7)} for 2h"),
        (doctor_checks.stalls([QUIET]), "--progress-timeout 1h takes such jobs back"),
        (doctor_checks.stalls([QUIET | {"stall_after": timedelta(hours=3)}]), "gives a job up after 3h"),
        (doctor_checks.durability(SERVER | {"synchronous_commit": "off"}), "may forget"),
    ],
)
def test_every_ill_is_named_with_what_to_do(findings: list[Finding], text: str) -> None:
    (finding,) = findings
    assert finding.verdict == "warn"
    assert finding.do
    assert text in f"{finding.says} {finding.do}"


def test_all_well_is_one_line_each() -> None:
    well = status(worker(), lanes=(lane(),))
    found = [*doctor_checks.workers(well), *doctor_checks.lanes(well), *doctor_checks.kinds(well, [], ["greet"])]
    assert [finding.verdict for finding in [*found, *doctor_checks.stalls([])]] == ["ok"] * 4


@pytest.mark.parametrize(
    ("carriers", "warned"),
    [
        ({"kinds": {}, "lanes": {"*": "arq"}}, False),
        ({"kinds": {"greet": "arq"}, "lanes": {}}, False),
        ({"kinds": {"greet": None}, "lanes": {"*": "arq"}}, True),
        ({"kinds": {}, "lanes": {"back": "arq"}}, True),
        (None, True),
    ],
)
def test_a_lane_whose_jobs_a_carrier_brings_needs_no_worker(
    carriers: dict[str, dict[str, str | None]] | None, warned: bool
) -> None:
    receiver = worker(lanes=[], kinds=["greet"], carriers=carriers)
    load = replace(lane(workers=0, due=Count(3)), lane=Lane("front", kinds=("greet",)))
    found = doctor_checks.lanes(status(receiver, lanes=(load,)))
    assert [finding.verdict for finding in found] == ["warn" if warned else "ok"]


async def test_jobs_that_report_nothing_are_found_by_their_lanes_own_measure(desk: Desk) -> None:
    store, worker, dead = desk.store, await desk.worker(), await desk.worker("dead")
    await store.execute("UPDATE {s}.workers SET seen_at = now() - interval '1 min' WHERE id = $1", dead)
    for name, limit, quiet, by, reported in (
        ("strict", "10 s", "6 s", worker, False),
        ("strict", "10 s", "4 s", worker, False),
        ("telling", "10 s", "9 s", worker, True),
        ("lost", "10 s", "9 s", dead, False),
        ("easy", None, "59 min", worker, False),
        ("easy", None, "61 min", worker, False),
    ):
        await store.execute("INSERT INTO {s}.lanes (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
        await store.execute("UPDATE {s}.lanes SET stall_after = $2::text::interval WHERE name = $1", name, limit)
        (claim,) = await store.claim(by, await store.enqueue())
        await store.execute(
            "UPDATE {s}.jobs SET lane = $2, claimed_at = clock_timestamp() - $3::text::interval WHERE id = $1",
            *(claim.job_id, name, quiet),
        )
        if reported:
            progress = "INSERT INTO {s}.job_progress (job_id, fence) VALUES ($1, $2)"
            await store.execute(progress, claim.job_id, claim.fence)
    doctor = Doctor(desk.app.database(), desk.app.settings)
    found = [finding for finding in await doctor._jobs() if finding.check == "progress"]
    assert [finding.says.partition(",")[0] for finding in found] == [
        "1 jobs of easy report nothing",
        "1 jobs of strict report nothing",
    ]
