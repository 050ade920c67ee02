"""A database of 100,000 jobs, for tests of what the desk's statements read."""

from __future__ import annotations

from tests.query_plans import ROWS

# History first: a scan in the table's own order has to pass it. Then the backlog, a busy gate, a few of the rest.
LOAD = f"""
INSERT INTO rowlock.jobs (kind, state, finished_at, tenant, submitted_by)
SELECT 'main', 'completed', clock_timestamp() - interval '1 day', CASE WHEN n % 2 = 0 THEN 'rare' END, 'rare'
FROM generate_series(1, 200) n;
INSERT INTO rowlock.jobs (kind, state, finished_at, run_after, fence, claimed_by, claimed_at, lane)
SELECT 'main', CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'completed' END, t, t, 2, 1, t, 'default'
FROM (SELECT n, clock_timestamp() - interval '1 day' + n * interval '1 ms' AS t
      FROM generate_series(1, {ROWS // 2}) n) d;
INSERT INTO rowlock.jobs (kind, run_after)
SELECT CASE WHEN n % 10 = 0 THEN 'k' || n % 500 ELSE 'main' END,
       clock_timestamp() - interval '1 hour' + n * interval '1 ms'
FROM generate_series(1, {ROWS // 2}) n;
INSERT INTO rowlock.gates (key, max_running, held) VALUES ('gate', 10, 10);
INSERT INTO rowlock.jobs (kind, state, gate_key, gate_place)
SELECT 'gated', 'blocked', 'gate', -1 FROM generate_series(1, 5000);
INSERT INTO rowlock.jobs (kind, state, gate_key, gate_place, fence, claimed_by, claimed_at, lane)
SELECT 'gated', 'running', 'gate', 1, 1, 1, clock_timestamp(), 'default' FROM generate_series(1, 10);
INSERT INTO rowlock.jobs (kind, state, approval) SELECT 'asked', 'pending', 1 FROM generate_series(1, 20);
INSERT INTO rowlock.job_refs (name, value, job_id) SELECT 'tag', 'rare', id FROM rowlock.jobs WHERE id % 2000 = 0;
INSERT INTO rowlock.job_refs (name, value, job_id) SELECT 'tag', 'often', id FROM rowlock.jobs;
INSERT INTO rowlock.pairs (kind, priority) SELECT DISTINCT kind, priority FROM rowlock.jobs;
INSERT INTO rowlock.workers (name, host, pid, version, kinds) VALUES ('w', 'h', 1, '0', '{{main}}');
INSERT INTO rowlock.lanes (name, kinds) VALUES ('default', '{{*}}');
"""
TABLES = ("rowlock.jobs", "rowlock.job_refs", "rowlock.pairs")
