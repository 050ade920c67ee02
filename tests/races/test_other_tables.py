"""One row of another table than jobs that a trigger refuses keeps no other row: neither its duty nor its statement."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import Store, opened
from tests.upkeep.duty_running import Desk, duty_runner
from tests.workflow_factory import Flow, S

from rowlock.desk.failures import FailuresByCause
from rowlock.errors import WriteRefused
from rowlock.store.jobs import workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROWS = 9
VICTIM = 4
_PICKY = """
CREATE FUNCTION public.picky() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ({row}) THEN RAISE EXCEPTION 'not this one'; END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER picky BEFORE INSERT OR UPDATE OR DELETE ON {s}.{table} FOR EACH ROW EXECUTE FUNCTION public.picky()
"""


@contextlib.asynccontextmanager
async def refused_row(store: Store, table: str, column: str, value: object) -> AsyncIterator[None]:
    """A trigger of the database's owner fails for the rows of a table that have this value."""
    row = f"CASE TG_OP WHEN 'INSERT' THEN NEW.{column} ELSE OLD.{column} END::text = '{value}'"
    await store.execute(_PICKY.replace("{row}", row).replace("{table}", table))
    yield
    await store.execute(f"DROP TRIGGER picky ON {{s}}.{table}")


@dataclass(frozen=True)
class OtherTable:
    """A table, the duty that changes its rows, and how many of them are still unchanged."""

    duty: str
    table: str
    column: str
    prepare: str
    """Makes nine rows; {n} is the number of each, and its value in the column unless `value` says another."""
    left: str
    value: str = "{n}"
    row: str = ""
    """How the row is named to people."""


_LANE = "INSERT INTO {s}.lanes (name, kinds, max_total, rate) VALUES ('l{n}', '{k{n}}', 3, "
_INCREMENT = (
    "INSERT INTO {s}.count_increments (outcome, state, kind, lane, tenant, run_bucket, wait_bucket, n, run_seconds,"
    " wait_seconds) VALUES ('', 'completed', '{n}', 'default', '', 0, 0, 1, 0, 0)"
)
_INCREMENTS_LEFT = "SELECT array_agg(kind) FROM {s}.count_increments"
_COUNT_OF_4 = "count of 4 default completed run 0 wait 0 "
_FAILURE = (
    "INSERT INTO {s}.failure_increments (job_id, n, ended, fingerprint, kind, tenant)"
    " VALUES ({n}, 1, true, 'f{n}', '{n}', '')"
)
_FAILURES_LEFT = "SELECT array_agg(kind) FROM {s}.failure_increments"
_OLD_COUNT = (
    "INSERT INTO {s}.counts_by_minute (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)"
    " VALUES (now() - interval '1 year', '{n}', '', '', 'completed', 'completed', 'run', 0, 1, 0)"
)
TABLES = {
    "silent workers": OtherTable(
        "registry",
        "workers",
        "name",
        "INSERT INTO {s}.workers (name, host, pid, version, seen_at)"
        " VALUES ('{n}', 'h', 1, '1', now() - interval '2 minutes')",
        "SELECT array_agg(name) FROM {s}.workers WHERE state <> 'gone'",
        row="worker ",
    ),
    "old workers": OtherTable(
        "registry",
        "workers",
        "name",
        "INSERT INTO {s}.workers (name, host, pid, version, state, seen_at)"
        " VALUES ('{n}', 'h', 1, '1', 'gone', now() - interval '2 days')",
        "SELECT array_agg(name) FROM {s}.workers",
        row="worker ",
    ),
    "waiters": OtherTable(
        "registry",
        "job_waiters",
        "job_id",
        "INSERT INTO {s}.job_waiters VALUES ({n}, gen_random_uuid(), now() - interval '1 hour')",
        "SELECT array_agg(job_id::text) FROM {s}.job_waiters",
        row="waiter of job 4",
    ),
    "locks": OtherTable(
        "registry",
        "locks",
        "name",
        "INSERT INTO {s}.locks (session, n, pid, key, namespace, name, held, process)"
        " VALUES ({n}, 1, 1, 7, 'x', '{n}', true, 'p')",
        "SELECT array_agg(name) FROM {s}.locks",
        row="lock x 4",
    ),
    "old operations": OtherTable(
        "registry",
        "operations",
        "by_whom",
        "INSERT INTO {s}.operations (action, filter_hash, expected_max, as_of, ceiling, by_whom, principal, state,"
        " finished_at) VALUES ('cancel', 'x', 1, now(), 1, '{n}', '{}', 'completed', now() - interval '1 year')",
        "SELECT array_agg(by_whom) FROM {s}.operations",
        row="operation ",
    ),
    "abandoned operations": OtherTable(
        "operations",
        "operations",
        "by_whom",
        "INSERT INTO {s}.operations (action, ids, filter_hash, expected_max, as_of, ceiling, by_whom, driven_until,"
        " principal) VALUES ('cancel', '{1}', 'x', 1, now(), 1, '{n}', '-infinity', jsonb_build_object('subject', 'p',"
        " 'kind', 'user', 'tenant', NULL, 'permissions', '[]'::jsonb, 'roles', '[]'::jsonb, 'request_id', NULL,"
        " 'address', NULL))",
        "SELECT array_agg(by_whom) FROM {s}.operations WHERE state = 'running'",
        row="operation ",
    ),
    "keys": OtherTable(
        "prune",
        "job_keys",
        "key",
        "INSERT INTO {s}.job_keys (kind, key, job_id, expires_at) VALUES ('k', '{n}', {n}, now() - interval '1 hour')",
        "SELECT array_agg(key) FROM {s}.job_keys",
        row="key of job 4",
    ),
    "failed logins": OtherTable(
        "prune",
        "login_failures",
        "key",
        "INSERT INTO {s}.login_failures VALUES ('{n}', 1, now() - interval '1 year')",
        "SELECT array_agg(key) FROM {s}.login_failures",
        row="login failures of 4",
    ),
    "caps of lanes": OtherTable(
        "gates",
        "gates",
        "key",
        _LANE + "NULL)",
        "SELECT array_agg(right(l.name, 1)) FROM {s}.lanes l WHERE l.name LIKE 'l_' AND NOT EXISTS"
        " (SELECT 1 FROM {s}.gates g WHERE g.key = 'lane:' || l.name)",
        value="lane:l{n}",
        row="lane:l4",
    ),
    "rates of lanes": OtherTable(
        "gates",
        "rates",
        "key",
        _LANE + """'{"amount": 1, "per": 1, "burst": 1, "window": false}')""",
        "SELECT array_agg(right(l.name, 1)) FROM {s}.lanes l WHERE l.name LIKE 'l_' AND NOT EXISTS"
        " (SELECT 1 FROM {s}.rates g WHERE g.key = 'lane:' || l.name)",
        value="lane:l{n}",
        row="lane:l4",
    ),
    "counts of gates": OtherTable(
        "gates",
        "gates",
        "key",
        "INSERT INTO {s}.gates (key, held) VALUES ('{n}', 1)",
        "SELECT array_agg(key) FROM {s}.gates WHERE held > 0",
        row="gate 4",
    ),
    "unused gates": OtherTable(
        "limits",
        "gates",
        "key",
        "INSERT INTO {s}.gates (key, used_at) VALUES ('{n}', now() - interval '1 year')",
        "SELECT array_agg(key) FROM {s}.gates",
        row="gate 4",
    ),
    "unused rates": OtherTable(
        "limits",
        "rates",
        "key",
        "INSERT INTO {s}.rates (key, amount, per, burst, tokens, used_at)"
        " VALUES ('{n}', 1, '1 s', 1, 1, now() - interval '1 year')",
        "SELECT array_agg(key) FROM {s}.rates",
        row="rate 4",
    ),
    "pairs": OtherTable(
        "sweep",
        "pairs",
        "kind",
        "INSERT INTO {s}.pairs (kind, priority, low_water) VALUES ('{n}', 0, now())",
        "SELECT array_agg(kind) FROM {s}.pairs WHERE low_water IS NOT NULL",
        row="pair 4 0 0",
    ),
    "increments": OtherTable("counts", "count_increments", "kind", _INCREMENT, _INCREMENTS_LEFT, row=_COUNT_OF_4),
    "counts by minute": OtherTable("counts", "counts_by_minute", "kind", _INCREMENT, _INCREMENTS_LEFT, row=_COUNT_OF_4),
    "counts in total": OtherTable("counts", "count_totals", "kind", _INCREMENT, _INCREMENTS_LEFT, row=_COUNT_OF_4),
    "series": OtherTable("counts", "count_series", "kind", _INCREMENT, _INCREMENTS_LEFT, row=_COUNT_OF_4),
    "failure groups": OtherTable("counts", "failure_groups", "kind", _FAILURE, _FAILURES_LEFT, row="failures of 4 "),
    "failures of an hour": OtherTable(
        "counts", "failures_by_hour", "fingerprint", _FAILURE, _FAILURES_LEFT, value="f{n}", row="failures of 4 "
    ),
    "old counts": OtherTable(
        "counts",
        "counts_by_minute",
        "kind",
        _OLD_COUNT,
        "SELECT array_agg(kind) FROM {s}.counts_by_minute",
        row="minute ",
    ),
    "old counts of hours": OtherTable(
        "counts",
        "counts_by_hour",
        "kind",
        _OLD_COUNT.replace("by_minute", "by_hour"),
        "SELECT array_agg(kind) FROM {s}.counts_by_hour",
        row="hour ",
    ),
    "old failure groups": OtherTable(
        "counts",
        "failure_groups",
        "kind",
        f"WITH old AS ({_OLD_COUNT}) INSERT INTO {{s}}.failure_groups"
        " (fingerprint, tenant, kind, first_seen, last_seen)"
        " VALUES ('f{n}', '', '{n}', '-infinity', now() - interval '1 year')",
        "SELECT array_agg(kind) FROM {s}.failure_groups",
        row="failure group f4",
    ),
    "old series": OtherTable(
        "counts",
        "count_totals",
        "kind",
        f"WITH old AS ({_OLD_COUNT.replace('by_minute', 'by_hour')}) INSERT INTO {{s}}.count_totals"
        " VALUES ('{n}', '', '', 'completed', 'completed', 'run', 0, 1, 0, now() - interval '1 year')",
        "SELECT array_agg(kind) FROM {s}.count_totals",
        row="series 4",
    ),
}


async def _until_settled(desk: Desk, duty: str) -> None:
    """Run a duty until it has passed over what it cannot change; one run may take one row of many."""
    for _ in range(ROWS + 1):
        desk.hurry()
        await desk.run(duty)


@pytest.mark.parametrize("name", TABLES)
async def test_a_refused_row_of_another_table_keeps_no_other(
    database_url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    case = TABLES[name]
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        for n in range(ROWS):
            await other.execute(case.prepare.replace("{n}", str(n)))
        async with refused_row(other, case.table, case.column, case.value.replace("{n}", str(VICTIM))):
            await _until_settled(desk, case.duty)
            assert await other.value(case.left) == [str(VICTIM)]
        assert [line for line in caplog.messages if line.startswith(case.row) and "not this one" in line]
        await _until_settled(desk, case.duty)
        assert await other.value(case.left) is None


async def test_workflows_are_judged_beside_one_that_is_refused(database_url: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        flows = []
        for _ in range(ROWS):
            flow = await Flow.of(desk.store, [], only={})
            await flow.end("only")
            flows.append(flow.number)
        for table in ("jobs", "workflows"):
            await other.execute(f"UPDATE {{s}}.{table} SET finished_at = now() - interval '30 days'")
        await other.execute("INSERT INTO {s}.retention (kind, state, keep) VALUES ('k', '*', '1 year')")
        judged = "SELECT array_agg(id ORDER BY id) FROM {s}.workflows WHERE kept_until IS NULL"
        async with refused_row(other, "workflows", "id", flows[VICTIM]):
            await _until_settled(desk, "prune")
            assert await other.value(judged) == [flows[VICTIM]]
        await _until_settled(desk, "prune")
        assert await other.value(judged) is None


async def test_a_workflow_that_cannot_be_judged_is_not_deleted_before_its_time(database_url: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        kept, short = [await Flow.of(desk.store, [], only={"kind": kind}) for kind in ("kept", "short")]
        for flow in (kept, short):
            await flow.end("only")
        for table in ("jobs", "workflows"):
            await other.execute(f"UPDATE {{s}}.{table} SET finished_at = now() - interval '30 days'")
        await other.execute("INSERT INTO {s}.retention (kind, state, keep) VALUES ('kept', '*', '1 year')")
        async with refused_row(other, "workflows", "id", kept.number):
            await other.execute("DROP TRIGGER picky ON {s}.workflows")
            await other.execute(
                "CREATE TRIGGER picky BEFORE UPDATE ON {s}.workflows FOR EACH ROW EXECUTE FUNCTION public.picky()"
            )
            await _until_settled(desk, "prune")
            assert await other.value("SELECT array_agg(id) FROM {s}.workflows") == [kept.number]


async def test_workflows_are_repaired_beside_one_that_is_refused(database_url: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        flows = [await Flow.of(desk.store, [("a", "b", S)]) for _ in range(ROWS)]
        await other.execute(
            "UPDATE {s}.jobs SET state = 'completed', finished_at = now() WHERE id = ANY ($1)",
            [flow.jobs["a"] for flow in flows],
        )
        async with refused_row(other, "workflow_steps", "workflow_id", flows[VICTIM].number):
            await desk.run("workflows")
            states = [(await flow.states())["b"] for flow in flows]
            assert states == ["queued"] * VICTIM + ["blocked"] + ["queued"] * (ROWS - VICTIM - 1)
        await desk.run("workflows")
        assert (await flows[VICTIM].states())["b"] == "queued"


async def test_counts_that_cannot_be_told_apart_keep_neither_failure_groups_nor_old_counts(database_url: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        worker = await desk.store.worker()
        (claim,) = await desk.store.claim(worker, await desk.store.enqueue())
        await desk.store.complete(claim, state="failed")
        await other.execute(_OLD_COUNT)
        await other.execute(
            "CREATE OR REPLACE FUNCTION {s}.count_increment_name(p {s}.count_increments) RETURNS text LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'no name for it'; END $$"
        )
        async with refused_row(other, "count_increments", "kind", "k"):
            with pytest.raises(WriteRefused, match="no name for it"):
                await desk.run("counts")
            assert await other.value("SELECT count(*) FROM {s}.count_increments") == 1
            assert await other.value("SELECT count(*) FROM {s}.failure_increments") == 0
            assert await other.value("SELECT count(*) FROM {s}.counts_by_minute") == 0
        await desk.run("counts")
        assert await other.value("SELECT count(*) FROM {s}.count_increments") == 0


async def test_failures_are_read_while_one_of_their_rows_is_refused(database_url: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        for n in range(ROWS):
            await other.execute(_FAILURE.replace("{n}", str(n)))
        failures = FailuresByCause(lambda: desk.store.database)
        async with refused_row(other, "failure_groups", "kind", VICTIM):
            assert not (await failures.list()).groups
            desk.hurry()
            await desk.run("counts")
            assert {group.kind for group in (await failures.list()).groups} == set("012345678") - {str(VICTIM)}
        await _until_settled(desk, "counts")
        assert len((await failures.list()).groups) == ROWS


@pytest.mark.parametrize("table", ["signals", "waits"])
async def test_waits_time_out_beside_one_whose_row_is_refused(database_url: str, table: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        worker = await desk.store.worker()
        jobs = [await desk.store.enqueue() for _ in range(ROWS)]
        for claim in await desk.store.claim(worker, *jobs):
            await desk.store.suspend(claim, "approved", 0.0)
        async with refused_row(other, table, "job_id", jobs[VICTIM]):
            await desk.run("signals")
            states = await desk.store.states(*jobs)
            assert states == ["queued"] * VICTIM + ["blocked"] + ["queued"] * (ROWS - VICTIM - 1)
            assert await other.value("SELECT count(*) FROM {s}.signals WHERE job_id = $1", jobs[VICTIM]) == 0
        await desk.run("signals")
        assert await desk.store.states(jobs[VICTIM]) == ["queued"]


async def test_the_wait_of_a_job_that_has_ended_is_forgotten_beside_one_that_is_refused(database_url: str) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        worker = await desk.store.worker()
        jobs = [await desk.store.enqueue() for _ in range(3)]
        for claim in await desk.store.claim(worker, *jobs):
            await desk.store.suspend(claim, "approved", 0.0)
        await other.execute("UPDATE {s}.jobs SET state = 'cancelled', finished_at = now()")
        async with refused_row(other, "waits", "job_id", jobs[1]):
            await desk.run("signals")
            assert await other.value("SELECT array_agg(job_id) FROM {s}.waits") == [jobs[1]]


async def test_a_supervisor_keeps_its_workers_alive_beside_one_whose_row_is_refused(database_url: str) -> None:
    async with opened(database_url) as store, opened(database_url) as other:
        mine = [await store.worker() for _ in range(3)]
        await other.execute("UPDATE {s}.workers SET seen_at = now() - interval '1 hour'")
        async with refused_row(other, "workers", "id", mine[1]):
            with pytest.raises(Exception, match="not this one"):
                await workers.vouch(store.database, mine)
        old = "SELECT array_agg(id) FROM {s}.workers WHERE seen_at < now() - interval '1 minute'"
        assert await other.value(old) == [mine[1]]


async def test_a_turn_at_a_rate_is_given_to_every_job_but_the_refused_one(database_url: str) -> None:
    rated: dict[str, Any] = {"rate_keys": ["api"]}
    async with opened(database_url) as store, opened(database_url) as other:
        await store.execute("INSERT INTO {s}.rates (key, amount, per, burst, tokens) VALUES ('api', 1, '1 hour', 1, 1)")
        worker = await store.worker()
        jobs = [await store.enqueue(**rated) for _ in range(6)]
        async with refused_row(other, "jobs", "id", jobs[4]):
            await store.claim(worker, jobs[0])
            await store.claim(worker, jobs[1])  # over the rate: those behind it get their turns, too
            assert await store.states(*jobs) == ["running", *["queued"] * 5]
            later = await other.value("SELECT array_agg(id ORDER BY run_after) FROM {s}.jobs WHERE run_after > now()")
            assert later == [jobs[1], jobs[2], jobs[3], jobs[5]]


async def test_a_lane_whose_rate_cannot_be_read_keeps_no_other(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with duty_runner(database_url) as desk, opened(database_url) as other:
        good = json.dumps({"amount": 1, "per": 1, "burst": 1, "window": False})
        for name, rate in (("a", good), ("b", '{"amount": "many"}'), ("c", good)):
            await other.execute("INSERT INTO {s}.lanes (name, rate) VALUES ($1, $2::jsonb)", name, rate)
        await desk.run("gates")
        assert await other.value("SELECT array_agg(key ORDER BY key) FROM {s}.rates") == ["lane:a", "lane:c"]
        assert "lane:b is set aside" in caplog.text
