"""Every statement of Rowlock that writes, with values for rows that all of them share.

Two statements deadlock when each holds a row that the other one needs. A Stage makes that happen where it can: a third
transaction holds one row, both statements run until they wait for it or for each other, and the row is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import asyncpg
from tests.factories import ORDER, Store
from tests.waiting import eventually

from rowlock.flow.claim.claimer import arguments, one_by_one
from rowlock.flow.enqueue.insert import BulkInsert
from rowlock.flow.enqueue.prepare import PreparedJob
from rowlock.model.job import NewJob
from rowlock.store.caller_transaction import drive_async
from rowlock.store.jobs.enqueue import values_of
from rowlock.store.queries import Statements, files, read

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from rowlock.model.queue_pair import Pair
    from rowlock.store.queries import Statement

STATEMENTS: Final = Statements("rowlock")
_WRITES: Final = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|FOR (NO KEY )?UPDATE|FOR (KEY )?SHARE)\b")
_WRITING_FUNCTIONS: Final = re.compile(
    r'"rowlock"\.(approve_by_rule|gates_repair|workflow_(start|add|retry|repair)|signal_send|signals_overdue|lock_release)\('
)
ELSEWHERE: Final = {
    "access.sql": "roles, tokens and sessions: one row per call, and no other lock",
    "failures.sql": "groups of failures: one call at a time, behind an advisory lock",
    "saved_views.sql": "one row per call, and no other lock",
    "testing.sql": "the test kit, in a database that nothing else uses",
    "webhooks.sql": "one endpoint and its secrets per call, and no other lock; a delivery is a new row",
}
"""Files whose statements share no row with the others."""
ALONE: Final = {
    "approval_rule_add": "inserts a row that nothing names yet",
    "approval_rule_remove": "deletes one row",
    "operation_add": "inserts a row that nothing names yet",
    "register_worker": "inserts a row that nothing names yet",
    "lane_add": "inserts one row",
    "schedule_add": "inserts one row",
    "revive_worker": "inserts one row",
    "prune_failures": "behind the advisory lock of failure groups",
    "lock_take": "writes one row of its own session",
    "lock_wait": "writes one row of its own session",
    "lock_leave": "deletes one row of its own session",
    "lock_release": "deletes one row of its own session",
    "prune_locks": "deletes rows of sessions that are gone",
    "keep_request": "behind an advisory lock of its key",
    "answer_request": "the two rows of one request, whose key no other request has",
    "withdraw": "deletes rows that its own transaction has just written",
    "enqueue": "inserts a row without a key",
    "enqueue_plain": "inserts a row without a key",
    "enqueue_plain_notifying": "inserts a row without a key",
    "enqueue_plain_inside": "inserts a row without a key",
    "enqueue_referenced": "inserts a row without a key",
}
"""Statements that lock at most rows which no other statement waits for, and why."""
WORKERS_OWN: Final = frozenset(
    {"claim", "claim_pairs", "claim_fair", "claim_ids", "claim_released", "complete", "complete_plain"}
    | {"complete_hooked", "give_back", "give_back_hooked", "suspend", "disown", "rates_retry_after"}
)
"""Statements that only a worker's own connections run, whose planner settings keep the given order of rows."""
OTHER_PLANS: Final = ("enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan", "enable_nestloop")
"""Switched off for every other statement: rows come in the order in which they lie in the table."""

GROUPS: Final = ("running", "plain", "queued", "pending", "final", "suspended", "halting")
HELD: Final = {
    **{
        f"{group} job, {mode}": (
            f"SELECT 1 FROM rowlock.jobs WHERE tenant = '{group}' ORDER BY id OFFSET 1 LIMIT 1 FOR {mode.upper()}"
        )
        for group in GROUPS
        for mode in ("update", "share")
    },
    "step behind": "SELECT 1 FROM rowlock.jobs WHERE tenant = 'behind' ORDER BY id OFFSET 1 LIMIT 1 FOR UPDATE",
    "old step": "SELECT 1 FROM rowlock.jobs WHERE tenant = 'old' ORDER BY id OFFSET 1 LIMIT 1 FOR UPDATE",
    "new unique key": (
        "INSERT INTO rowlock.jobs (kind, unique_key, unique_scope, args) VALUES ('k', 'k:n2', 'live', '{}')"
    ),
    "new idempotency key": "INSERT INTO rowlock.job_keys (kind, key, job_id) VALUES ('k', 'n2', 0)",
    "expired key": "SELECT 1 FROM rowlock.job_keys WHERE key = 'e2' FOR UPDATE",
    "gate": "SELECT 1 FROM rowlock.gates WHERE key = 'g2' FOR UPDATE",
    "lane cap": "SELECT 1 FROM rowlock.gates WHERE key = 'lane:default' FOR UPDATE",
    "lane rate": "SELECT 1 FROM rowlock.rates WHERE key = 'lane:default' FOR UPDATE",
    "new workflow key": "INSERT INTO rowlock.workflows (name, unique_key) VALUES ('f', 'n2')",
    "rate": "SELECT 1 FROM rowlock.rates WHERE key = 'r2' FOR UPDATE",
    "lane": "SELECT 1 FROM rowlock.lanes WHERE name = 'l2' FOR UPDATE",
    "live workflow": "SELECT 1 FROM rowlock.workflows WHERE name = 'live' ORDER BY id OFFSET 1 LIMIT 1 FOR UPDATE",
    "old workflow": "SELECT 1 FROM rowlock.workflows WHERE name = 'old' ORDER BY id OFFSET 1 LIMIT 1 FOR UPDATE",
    "wait": "SELECT 1 FROM rowlock.waits ORDER BY job_id OFFSET 1 LIMIT 1 FOR UPDATE",
    "wait for a signal": "SELECT 1 FROM rowlock.waits WHERE signal = 's' ORDER BY job_id OFFSET 1 LIMIT 1 FOR UPDATE",
    "wait that is over": "SELECT 1 FROM rowlock.waits WHERE signal = 'o' ORDER BY job_id OFFSET 1 LIMIT 1 FOR UPDATE",
    "pair": "SELECT 1 FROM rowlock.pairs WHERE (kind, priority) = ('k', 1) FOR UPDATE",
    "worker": "SELECT 1 FROM rowlock.workers ORDER BY id OFFSET 2 LIMIT 1 FOR UPDATE",
    "schedule": "SELECT 1 FROM rowlock.schedules WHERE name = 's2' FOR UPDATE",
    "operation": "SELECT 1 FROM rowlock.operations ORDER BY id OFFSET 1 LIMIT 1 FOR UPDATE",
    "progress": "SELECT 1 FROM rowlock.job_progress ORDER BY job_id OFFSET 1 LIMIT 1 FOR UPDATE",
    "waiter": "SELECT 1 FROM rowlock.job_waiters ORDER BY job_id OFFSET 1 LIMIT 1 FOR UPDATE",
    "retention": "SELECT 1 FROM rowlock.retention WHERE kind = 'x2' FOR UPDATE",
    "kind": "SELECT 1 FROM rowlock.kinds WHERE name = 'x2' FOR UPDATE",
    "duty": "SELECT 1 FROM rowlock.duties WHERE name = 'sweep' FOR UPDATE",
}
"""What the third transaction holds: the middle one of several rows that the statements share."""

_BUILT: Final = """
INSERT INTO rowlock.lanes (name, kinds, max_total, stall_after, rate)
VALUES ('default', '{k}', 1000, '1 s', '{"amount": 1000, "per": 3600, "burst": 1000, "window": false}');
INSERT INTO rowlock.lanes (name, kinds) SELECT 'l' || n, ARRAY['x1', 'x2', 'x3'] FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.gates (key, max_running, held, used_at) VALUES ('lane:default', 1000, 6, now()),
  ('g1', 9, 1, '2001-01-01'), ('g2', 9, 1, '2001-01-01'), ('g3', 9, 1, '2001-01-01');
INSERT INTO rowlock.rates (key, amount, per, burst, sliding, tokens, used_at)
SELECT key, 1000, '1 hour', 1000, false, 1000, '2001-01-01' FROM unnest(ARRAY['r1', 'r2', 'r3', 'lane:default']) AS key;
INSERT INTO rowlock.kinds (name, seen_at) SELECT 'x' || n, '2001-01-01' FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.retention (kind, state, keep) SELECT 'x' || n, '*', '1 day' FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.pairs (kind, priority, low_water, last_seen)
SELECT 'k', n, '2001-01-01', '2001-01-01' FROM generate_series(0, 3) AS n;
INSERT INTO rowlock.workers (name, host, pid, version, seen_at)
SELECT 'w', 'h', 1, '0', '2001-01-01' FROM generate_series(1, 4);
INSERT INTO rowlock.approval_rules (kind) VALUES ('k');
INSERT INTO rowlock.schedules (name, kind, every, next_at)
SELECT 's' || n, 'k', '1 day', '2001-01-01' FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.operations (action, ids, filter_hash, expected_max, as_of, ceiling, principal, driven_until)
SELECT 'cancel', '{1}', 'h', 9, now(), 9, '{"subject": "ada", "tenant": null}', '2001-01-01' FROM generate_series(1, 3);
INSERT INTO rowlock.job_keys (kind, key, job_id, expires_at)
SELECT 'k', 'e' || n, 0, '2001-01-01' FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.workflows (name, total, open, unique_key)
SELECT 'live', 3, 3, 'w' || n FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.workflows (name, total, state, finished_at)
SELECT 'old', 1, 'completed', '2001-01-01' FROM generate_series(1, 3);
INSERT INTO rowlock.workflows (name, total, open, cancel_requested) VALUES ('halting', 3, 3, true);

INSERT INTO rowlock.jobs (kind, tenant, state, gate_key, gate_place, rate_keys, claimed_by, claimed_at, lane, attempt,
                          fence, too_old_at, workflow_id, args)
SELECT 'k', 'running', 'running', 'g' || n, 1, ARRAY['r' || n], 1, '2001-01-01', 'default', 1, 1, '2001-01-01', n, '{}'
FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.jobs (kind, tenant, state, claimed_by, claimed_at, lane, attempt, fence, rate_keys, args)
SELECT 'k', 'plain', 'running', 1, '2001-01-01', 'default', 1, 1, ARRAY['r1', 'r2', 'r3'], '{}'
FROM generate_series(1, 3);
INSERT INTO rowlock.jobs (kind, tenant, state, gate_key, rate_keys, expires_at, run_after, unique_key, unique_scope,
                          args)
SELECT 'k', 'queued', 'queued', 'g' || n, ARRAY['r' || n], '2001-01-01', '2001-01-01', 'k:u' || n, 'live', '{}'
FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.jobs (kind, tenant, state, approval, answer_by, gate_key, unique_key, unique_scope, args)
SELECT 'k', 'pending', 'pending', 1, '2001-01-01', 'g' || n, 'k:v' || n, 'waiting', '{}'
FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.jobs (kind, tenant, state, finished_at, claimed_by, claimed_at, unique_key, unique_scope, args)
SELECT 'k', 'final', 'failed', '2001-01-01', 1, '2001-01-01', 'k:f' || n, 'live', '{}' FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.jobs (kind, tenant, state, gate_key, args)
SELECT 'k', 'suspended', 'blocked', 'g' || n, '{}' FROM generate_series(1, 3) AS n;
INSERT INTO rowlock.jobs (kind, tenant, state, workflow_id, args)
SELECT 'k', tenant, 'blocked', n, '{}'
FROM unnest(ARRAY['behind', 'released']) AS tenant CROSS JOIN generate_series(1, 3) AS n;
INSERT INTO rowlock.jobs (kind, tenant, state, finished_at, workflow_id, args)
SELECT 'k', 'old', 'completed', '2001-01-01', n, '{}' FROM generate_series(4, 6) AS n;
INSERT INTO rowlock.jobs (kind, tenant, state, claimed_by, claimed_at, lane, attempt, fence, workflow_id, args)
SELECT 'k', 'halting', 'running', 1, '2001-01-01', 'default', 1, 1, 7, '{}' FROM generate_series(1, 3);
INSERT INTO rowlock.workflow_steps (job_id, workflow_id, name, ended)
SELECT id, workflow_id, CASE tenant WHEN 'halting' THEN 'step ' || id ELSE tenant END, tenant = 'old'
FROM rowlock.jobs WHERE workflow_id IS NOT NULL;
INSERT INTO rowlock.edges (upstream, downstream, needs)
SELECT u.id, d.id, 'finish' FROM rowlock.jobs u JOIN rowlock.jobs d USING (workflow_id)
WHERE u.tenant = 'running' AND d.tenant = 'behind';
INSERT INTO rowlock.waits (job_id, signal, until)
SELECT id, CASE state WHEN 'blocked' THEN 's' ELSE 'o' END, '2001-01-01' FROM rowlock.jobs
WHERE tenant IN ('suspended', 'queued', 'running');
INSERT INTO rowlock.waits (job_id, remaining)
SELECT id, (tenant = 'behind')::integer FROM rowlock.jobs WHERE tenant IN ('behind', 'released');
INSERT INTO rowlock.job_progress (job_id, fence) SELECT id, fence FROM rowlock.jobs WHERE state = 'running';
INSERT INTO rowlock.job_waiters (job_id, waiter, until)
SELECT id, '00000000-0000-0000-0000-000000000001', '2001-01-01' FROM rowlock.jobs;
"""
_WAITS: Final = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"
_TABLES: Final = (
    "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'rowlock'::regnamespace AND c.relkind = 'r' ORDER BY 1"
)


async def build(store: Store) -> None:
    """Fill an empty database, and let the rows of every table lie in the reverse of their order."""
    await store.execute(_BUILT)
    for row in await store.connection.fetch(_TABLES):
        table, column = (
            f"rowlock.{row['relname']}",
            await store.value(
                "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relname = $1"
                " AND c.relnamespace = 'rowlock'::regnamespace"
                " AND a.attnum > 0 AND a.attgenerated = '' AND a.attidentity <> 'a' ORDER BY a.attnum LIMIT 1",
                row["relname"],
            ),
        )
        for found in reversed(await store.connection.fetch(f"SELECT ctid FROM {table} ORDER BY 1")):
            await store.execute(f'UPDATE {table} SET "{column}" = "{column}" WHERE ctid = $1', found["ctid"])


@dataclass(frozen=True)
class Writer:
    """One statement, or the statements of one transaction, as Rowlock runs them. plans: any, or those of a worker."""

    name: str
    run: Callable[[Store], Awaitable[object]]
    plans: str = "any"


@dataclass(frozen=True)
class Rows:
    """The shared rows, as the values of statements name them."""

    jobs: dict[int, tuple[str, int]]
    """Job id to group and fence."""
    low: datetime = datetime(2001, 1, 1, tzinfo=UTC)

    @classmethod
    async def of(cls, store: Store) -> Rows:
        found = await store.connection.fetch("SELECT id, tenant, fence FROM rowlock.jobs ORDER BY id")
        return cls({row["id"]: (row["tenant"], row["fence"]) for row in found})

    def of_group(self, group: str) -> list[int]:
        return [number for number, (own, _) in self.jobs.items() if own == group]

    def middle(self, group: str) -> int:
        return self.of_group(group)[1]

    @property
    def ids(self) -> list[int]:
        return list(self.jobs)

    @property
    def fences(self) -> list[int]:
        return [fence for _, fence in self.jobs.values()]


_HOUR: Final = timedelta(hours=1)
_PLAN: Final = json.dumps({"steps": [{"name": "new", "kind": "k"}], "edges": []})
_KEYS: Final = ("n1", "n2", "n3")


def _shared(rows: Rows) -> dict[str, Any]:
    """Values by the name of the parameter, which means the same in most statements."""
    n = len(rows.ids)
    middle = rows.middle("queued")
    many = {
        "states": ["failed"] * n,
        "results": [None] * n,
        "errors": [None] * n,
        "hooks": ["k"] * n,
        "hook_attempts": [1] * n,
        "delays": [0.0] * n,
        "refunds": [0] * n,
        "deaths": [0] * n,
        "outcomes": ["failed"] * n,
        "signals": ["s"] * n,
        "phases": ["p"] * n,
        "progress": ["{}"] * n,
        "passed": [None] * n,
        "checkpoints": [None] * n,
        "cursors": [None] * n,
        "keys": [None] * n,
    }
    one = values_of(NewJob(kind="k", unique_key="k:u2", unique_scope="live", idempotency_key="n2", gate_key="g2"))
    bulk = {
        "many_args": ["{}"] * 3,
        "many_unique_keys": [f"k:{key}" for key in _KEYS],
        "many_gate_keys": [None] * 3,
        "many_idempotency_keys": list(_KEYS),
        "many_refs": [None] * 3,
        "many_rate_keys": [None] * 3,
    }
    lane = {
        "kinds": ["x1", "x2", "x3"],
        "slots": 1,
        "max_total": 1000,
        "ordering": "fast",
        "enabled": True,
        "rate": None,
        "poll_every": None,
        "stale_after": None,
        "stall_after": None,
        "age_every": None,
        "requires_approval": None,
    }
    return {
        **one, **bulk, **lane, **many, **ORDER,
        "args": "{}", "ids": rows.ids, "fences": rows.fences, "worker": 1, "workers": [1, 2, 3, 4], "channel": "c",
        "state": "cancelled", "error": None, "priority": 5, "keep_items": True, "id": middle, "seq": 0, "name": "l2",
        "fence": 1, "job": rows.middle("plain"), "workflow": None, "plan": _PLAN, "batch": 100, "lane": "default",
        "lanes": ["default", "l1", "l2", "l3"], "free": [5, 5, 5, 5], "watched": timedelta(days=9999), "max_losses": 3,
        "held": [], "before": datetime.now(UTC), "place": "here", "key": "g2", "keep_key": _HOUR, "scope": "k",
        "unique_key": "k:u2", "waiter": UUID(int=1), "seconds": _HOUR, "kind": "x2", "others": ["x1"], "version": None,
        "priorities": [1, 2, 3], "shares": [0, 0, 0], "limits": [9, 9, 9], "fifos": [False] * 3,
        "names": ["s1", "s2", "s3"],
        "payload": "null", "step": "running", "flows": 100, "steps": 100, "hungry": True, "stuck": 0, "look": True,
        "job_id": None, "max_running": 500, "fifo": False, "amount": 5, "per": _HOUR, "burst": 5, "sliding": False,
        "lasting": _HOUR, "until": None, "done": [], "n": 1, "every": _HOUR, "checkpoint": "1", "resume": True,
        "phase": "p", "principal": False, "own": ["k", "x1", "x2", "x3"], "args_match": "exact", "set_aside": None,
        "only": None, "careful": False, "granted": None,
        "lines": 0, "bytes": 0, "sees_all": True, "subject": "ada", "tenant": None, "moves": True, "ms": 5,
        "next_at": rows.low, "expected": rows.low, "last_at": None, "skipped_at": None, "skipped_why": None,
    }  # fmt: skip


def _special(rows: Rows) -> dict[str, dict[str, Any]]:
    """Values of statements that give a parameter a meaning of its own."""
    probes: dict[str, list[tuple[Pair, datetime]]] = {"default": [(("k", 0, 0), rows.low), (("k", 1, 0), rows.low)]}
    levels = cast("dict[str, Any]", arguments(1, {"default": 3}, probes))
    n, schedule = len(rows.ids), {"name": "s2", "version": 1, "kind": "k"}
    rated = {
        "keys": ["r1", "r2", "r3"],
        "amounts": [5] * 3,
        "pers": [_HOUR] * 3,
        "bursts": [5] * 3,
        "slidings": [False] * 3,
    }
    return {
        "claim": levels,
        "claim_pairs": cast("dict[str, Any]", one_by_one(1, {"default": 3}, probes)),
        "claim_fair": {**levels, "debts": [0.0] * len(levels["kinds"])},
        "claim_released": {"free": 5, "kinds": ["k"], "priorities": [0], "shares": [0], "lows": [rows.low]},
        "reserve_started": {
            "kinds": ["k"],
            "priorities": [0],
            "shares": [0],
            "lows": [rows.low],
            "carriers": ["c"],
            "most": 100,
            "unsent": _HOUR,
        },
        "reserve_ids": {"carriers": ["c"] * n, "unsent": _HOUR},
        "delivered": {"again": _HOUR, "backend_job_ids": [None] * n},
        "undeliver": {"after": _HOUR, "counts": True},
        "elect_deliverer": {"name": "deliver a"},
        "retention_order": {"keep": _HOUR},
        "register_pairs": {"kinds": ["k", "k", "k"]},
        "register_gates": {"keys": ["g1", "g2", "g3"]},
        "register_rates": {**rated, "slidings": [False] * 3},
        "register_kinds": {
            "names": ["x1", "x2", "x3"],
            "on_worker_lost": ["fail"] * 3,
            "max_losses": [None] * 3,
            "isolates": [True] * 3,
            "hooks": [None] * 3,
            "defaults": [None] * 3,
        },
        "set_retention": {"states": ["*"] * 3, "keeps": [_HOUR] * 3},
        "give_back": {"states": ["queued"] * n},
        "give_back_hooked": {"states": ["queued"] * n},
        "suspend": {"seconds": [None] * n},
        "edit": {
            "before": "{}",
            "after": "{}",
            "args": '{"a": 1}',
            "refs": None,
            "answer_in": None,
            "run_at": None,
            "run_in": None,
            "tags": ["t"],
        },
        "enqueue_keep": {"unique_key": "k:n2"},
        "enqueue_once": {"unique_key": None, "unique_scope": None},
        "enqueue_many_once": {"unique_scope": None},
        "enqueue_replace_waiting": {"unique_key": "k:v2", "unique_scope": "waiting"},
        "enqueue_once_replace_waiting": {"unique_key": "k:v2", "unique_scope": "waiting"},
        "point_key": {"idempotency_key": "e2"},
        "guard": {"id": rows.middle("running")},
        "save_checkpoint": {"id": rows.middle("running")},
        "keep_items": {"id": rows.middle("running")},
        "trim_logs": {"id": rows.middle("running")},
        "delete_job": {"id": rows.middle("final")},
        "signal_send": {"id": rows.middle("suspended"), "name": "s"},
        "beat": {"state": "up", "held": None, "memory": None},
        "worker_drain": {"id": None, "name": "w"},
        "lane_delete": {"name": "l2"},
        "lane_cap": {"name": "default"},
        "lane_rate": {"only": None},
        "lane_rate_enter": {"free": 5},
        "operation_cancel": {"id": 2},
        "operation_advance": {"id": 2, "was": 0, "cursor": 1, "state": "running", "done": 0, "skipped": 0, "failed": 0},
        "operation_leave": {"ids": [1, 2, 3]},
        "write_items": {
            "ids": rows.of_group("running"),
            "fences": [1] * 3,
            "by_ids": rows.of_group("running"),
            "by_fences": [1] * 3,
            "targets": [1, 2, 3],
            "phases": ["p"] * 3,
            "names": ["i"] * 3,
            "states": ["completed"] * 3,
            "started": [rows.low] * 3,
            "ended": [rows.low] * 3,
            "reasons": [None] * 3,
            "errors": [None] * 3,
        },
        "write_logs": {
            "line_ids": rows.of_group("running"),
            "numbers": [1] * 3,
            "moments": [rows.low] * 3,
            "levels": [20] * 3,
            "loggers": ["l"] * 3,
            "messages": ["m"] * 3,
        },
        **{name: {"key": "r2"} for name in ("rate_set", "rate_pause", "rate_resume", "rate_reset", "rate_delete")},
        "rate_recall": {"key": "r2", "passed": 0.0},
        "age": {"kinds": ["k"]},
        "schedule_take": schedule,
        "schedule_fired": schedule,
        "schedule_ran": schedule,
        "schedule_delete": schedule,
        "schedule_set": {
            **schedule,
            "options": "{}",
            "cron": None,
            "tz": "UTC",
            "missed": "latest",
            "most_missed": 1,
            "overlap": "queue",
            "windows": "[]",
            "declared": None,
        },
        "elect": {"name": "sweep"},
        "duty_took": {"name": "sweep"},
        "expire": {"state": "expired"},
        "too_old": {"state": "failed"},
        "unanswered": {"state": "expired"},
        "prune": {"kind": "*", "state": "*"},
        "workflow_start": {"name": "f", "unique_key": "n2", "meta": None},
        "workflow_retry": {"workflow": 5, "step": "old"},
        "workflow_cancel": {"workflow": 2},
        "workflow_halt": {"workflow": 7},
        "workflow_halt_unheld": {"workflow": 7},
        "lane_drop_kinds": {"name": "l0"},
        "lane_hint": {"name": "l2", "kind": "x9"},
        "rates_retry_after": {"delays": [1.0] * n},
    }


def writing(names: Statements = STATEMENTS) -> Iterator[str]:
    """The statements that write or lock rows, also through functions of the schema."""
    where = {name: file for file, text in files().items() for name in read({file: text})[0]}
    for name in names:
        text = names[name].dollar
        if (_WRITES.search(text) or _WRITING_FUNCTIONS.search(text)) and where[name] not in ELSEWHERE:
            yield name


def writers(rows: Rows) -> list[Writer]:
    """Every statement that writes, and the transactions that Rowlock makes of several."""
    shared, special = _shared(rows), _special(rows)
    singles = {name: _single(name, shared | special.get(name, {})) for name in writing() if name not in ALONE}
    own_key = shared | special["enqueue_once"] | {"idempotency_key": "slot"}
    ended = _single("cancel_waiting", shared | {"ids": [rows.middle("queued")]})

    async def firing(store: Store) -> object:
        await singles["schedule_take"](store)
        await ended(store)
        await _single("enqueue_once", own_key)(store)
        return await singles["schedule_fired"](store)

    def together(*names: str) -> Callable[[Store], Awaitable[object]]:
        async def run(store: Store) -> object:
            for name in names:
                await singles[name](store)
            return None

        return run

    step = shared | {"job": rows.middle("running")}
    outside = shared | {"fence": None}
    return [
        *(
            Writer(name, run, "a worker's" if name in WORKERS_OWN else "any")
            for name, run in singles.items()
        ),
        Writer("workflow_add by a step", _single("workflow_add", step)),
        Writer("workflow_add from outside", _single("workflow_add", outside)),
        Writer("workflow_retry of a live one", _single("workflow_retry", shared | {"workflow": 2, "step": "running"})),
        Writer(
            "claim under cap and rate",
            together("cap_enter", "lane_rate_enter", "claim", "cap_taken", "lane_rate_taken"),
            "a worker's",
        ),
        Writer("claim in a strict lane", together("lock_lanes", "cap_enter", "claim_pairs", "cap_taken"), "a worker's"),
        Writer("firing of a schedule", firing),
        Writer("cancel of many", together("lock_jobs", "cancel_waiting", "cancel_running", "operation_advance")),
        Writer("bulk by unique key", _bulk("unique_key", _KEYS)),
        Writer("bulk by unique key, backwards", _bulk("unique_key", _KEYS[::-1])),
        Writer("bulk by idempotency key", _bulk("idempotency_key", _KEYS)),
        Writer("bulk by idempotency key, backwards", _bulk("idempotency_key", _KEYS[::-1])),
        Writer("bulk by expired key", _bulk("idempotency_key", ("e1", "e2", "e3"))),
    ]  # fmt: skip


def _single(name: str, values: Mapping[str, Any]) -> Callable[[Store], Awaitable[object]]:
    statement = STATEMENTS[name]
    # The server of a test has not been up for long enough to judge any worker.
    text = statement.dollar.replace("pg_postmaster_start_time()", "'-infinity'::timestamptz")

    async def run(store: Store) -> object:
        return await store.connection.fetch(text, *statement.bind(values))

    return run


def _bulk(which: str, keys: Sequence[str]) -> Callable[[Store], Awaitable[object]]:
    """enqueue_many() with keys in this order. The caller shortens its batches, so that they are split."""
    jobs = []
    for key in keys:
        said: dict[str, Any] = (
            {"unique_key": f"k:{key}", "unique_scope": "live"} if which == "unique_key" else {which: key}
        )
        job = NewJob(kind="k", keep_key=_HOUR, **said)
        jobs.append(PreparedJob(job, None, (), ("k", 0, 0), values_of(job), None))

    async def run(store: Store) -> object:
        insert = BulkInsert(["{}"] * len(keys), jobs)
        return await drive_async(insert.plan(), store.database.statements, _Runner(store))

    return run


class _Runner:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_async(self, statement: Statement, values: Mapping[str, object]) -> list[Sequence[object]]:
        rows = await self._store.connection.fetch(statement.dollar, *statement.bind(values))
        return [tuple(row) for row in rows]


class Stage:
    """Three transactions and an observer. Nothing that happens here is committed."""

    def __init__(self, keeper: Store, observer: Store, sides: Mapping[str, Sequence[Store]]) -> None:
        """sides: two connections per sort of plans."""
        self._keeper, self._observer, self._sides = keeper, observer, sides

    async def waits_at(self, held: str, writer: Writer) -> bool:
        """Whether the writer waits for what is held. Alone it fails for no reason but what is held."""
        async with self._holding(held):
            task = await self._started(writer, 0)
            waits = not task.done()
        (error,) = await self._ended([task])
        assert error is None, (writer.name, held, error)
        return waits

    async def deadlock(self, held: str, first: Writer, second: Writer) -> str | None:
        """How the two deadlock when both wait while this is held; None: they do not."""
        async with self._holding(held):
            tasks = [await self._started(first, 0), await self._started(second, 1)]
        for error in await self._ended(tasks):
            if isinstance(error, asyncpg.DeadlockDetectedError):
                return str(error.detail)
        return None

    @contextlib.asynccontextmanager
    async def _holding(self, held: str) -> AsyncIterator[None]:
        transaction = self._keeper.connection.transaction()
        await transaction.start()
        try:
            await self._keeper.connection.execute(HELD[held])
            yield
        finally:
            await transaction.rollback()

    async def _started(self, writer: Writer, side: int) -> asyncio.Task[BaseException | None]:
        store = self._sides[writer.plans][side]
        task = asyncio.create_task(self._rolled_back(writer, store))

        async def waits() -> bool:
            return task.done() or await self._observer.value(_WAITS, store.pid)

        await eventually(waits)
        return task

    @staticmethod
    async def _rolled_back(writer: Writer, store: Store) -> BaseException | None:
        transaction = store.connection.transaction()
        await transaction.start()
        try:
            await writer.run(store)
        except asyncpg.PostgresError as error:
            return error
        finally:
            await transaction.rollback()
        return None

    @staticmethod
    async def _ended(tasks: Sequence[asyncio.Task[BaseException | None]]) -> list[BaseException | None]:
        return list(await asyncio.gather(*tasks))
