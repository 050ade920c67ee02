-- Counts of what happens to jobs: ends of attempts and of jobs. docs/decisions/0016 says why they are made so, and what
-- they cost.

-- The histogram bucket of a duration: how many bounds are smaller than it. A duration equal to a bound belongs to that
-- bound, as `le` of Prometheus says. The bounds are those of model/job_counts.py.
CREATE FUNCTION {schema}.count_bucket(p_seconds double precision) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
  SELECT (17 - width_bucket(-p_seconds,
    '{-14400,-3600,-900,-300,-60,-30,-10,-5,-2.5,-1,-0.5,-0.25,-0.1,-0.05,-0.025,-0.01,-0.005}'::float8[]))::smallint
$$;

-- Runs after every statement that updates jobs, in its transaction: an end is counted exactly when it is accepted,
-- whichever path, release or SQL client wrote it. It only appends, so no writer waits for the counts of another. A
-- statement that only claims leaves at once: starts are ends of attempts plus running jobs. FULL JOIN and OFFSET 0: the
-- plan is kept from the first call on, usually one with a single row, and a full join is never a nested loop, which
-- would compare every row of a batch of 500 with every other. The subquery is entered only for the rows that need it.
-- A claim that its gate or rate puts back has no claimed_at any more, and was no attempt. An attempt that ends without
-- ending its job is described by its attempt row, unless no worker could read the job twice for the same cause. Only a
-- statement that wrote a failure reads its rows a second time, for the failure groups, and only while there is an enabled webhook are they read
-- once more, for its deliveries: looking for one within the last statement costs no statement of its own.
CREATE FUNCTION {schema}.count_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE v_failed boolean; v_told boolean;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM new_jobs n WHERE n.state <> 'running') THEN RETURN NULL; END IF;
  WITH counted AS (
  INSERT INTO {schema}.count_increments (outcome, state, kind, lane, tenant, run_bucket, wait_bucket, n, run_seconds, wait_seconds)
  SELECT CASE WHEN c.outcome <> c.state THEN c.outcome ELSE '' END, c.state, c.kind, c.lane, c.tenant,
         {schema}.count_bucket(c.ran), {schema}.count_bucket(c.waited), count(*), coalesce(sum(c.ran), 0), coalesce(sum(c.waited), 0)
    FROM (
      SELECT CASE WHEN o.state = n.state THEN NULL
                  WHEN o.state = 'running' AND n.claimed_at IS NULL THEN NULL
                  WHEN o.state = 'running' AND n.state = 'completed' THEN n.state
                  WHEN o.state = 'running' THEN
                    coalesce((SELECT a.outcome FROM {schema}.job_attempts a WHERE a.job_id = o.id AND a.fence = o.fence),
                             CASE WHEN n.finished_at IS NULL THEN 'unreadable' ELSE n.state END)
                  WHEN o.finished_at IS NULL AND n.finished_at IS NOT NULL THEN 'unstarted'
                  WHEN o.finished_at IS NOT NULL AND n.finished_at IS NULL THEN 'reopened' END AS outcome,
             CASE WHEN n.finished_at IS NOT NULL THEN n.state ELSE '' END AS state,
             n.kind, coalesce(n.lane, o.lane, '') AS lane, coalesce(n.tenant, '') AS tenant,
             CASE WHEN o.state = 'running' THEN greatest(0, date_part('epoch', now() - n.claimed_at)) END AS ran,
             CASE WHEN o.state = 'running' THEN greatest(0, date_part('epoch', n.claimed_at - o.run_after)) END AS waited
        FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS c
   WHERE c.outcome IS NOT NULL
   GROUP BY 1, 2, 3, 4, 5, 6, 7
  RETURNING outcome, state)
  SELECT bool_or(d.state = 'failed' OR d.outcome IN ('failed', 'died', 'lost')),
         EXISTS (SELECT 1 FROM {schema}.webhooks w WHERE w.enabled) INTO v_failed, v_told FROM counted d;
  IF v_failed THEN
    INSERT INTO {schema}.failure_increments (n, ended, job_id, fingerprint, kind, tenant)
    SELECT count(*), f.ended, max(f.id), {schema}.failure_fingerprint(f.kind, f.errors), f.kind, f.tenant
      FROM (
        SELECT CASE WHEN o.state = n.state OR o.finished_at IS NOT NULL THEN false
                    WHEN n.state = 'failed' THEN true
                    WHEN o.state = 'running' AND n.finished_at IS NULL AND n.claimed_at IS NOT NULL THEN
                      (SELECT a.outcome FROM {schema}.job_attempts a WHERE a.job_id = o.id AND a.fence = o.fence)
                        IN ('failed', 'died', 'lost') END AS failed,
               n.state = 'failed' AS ended, n.id, n.kind, coalesce(n.tenant, '') AS tenant, n.errors
          FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS f
     WHERE f.failed
     GROUP BY 2, 4, 5, 6;
  END IF;
  IF v_told THEN
    PERFORM {schema}.webhook_send(array_agg(c.id), array_agg(c.fence), array_agg(c.kind), array_agg(c.state), array_agg(c.attempt),
                                  array_agg(c.tenant), array_agg(c.finished_at))
      FROM (SELECT n.id, n.fence, n.kind, n.state, n.attempt, n.tenant, n.finished_at, o.state AS state_before
              FROM old_jobs o FULL JOIN new_jobs n ON n.id = o.id OFFSET 0) AS c
     WHERE c.state <> c.state_before AND (c.finished_at IS NOT NULL OR c.state = 'pending');
  END IF;
  RETURN NULL;
END $$;

-- An increment as people read of it, and as a fold in parts names it: the rows of counts that it belongs to. In UTC,
-- whatever the session's time zone.
CREATE FUNCTION {schema}.count_increment_name(p {schema}.count_increments) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat_ws(' ', 'count of', p.kind, nullif(p.lane, ''), nullif(p.tenant, ''), nullif(p.outcome, ''), nullif(p.state, ''),
                   'run ' || p.run_bucket, 'wait ' || p.wait_bucket, to_char(p.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'))
$$;

-- Moves increments into the counts by minute, by ten minutes, by hour and in total, in one transaction: a reader sees each of them
-- either here or there. What is deleted is what is counted, so increments that commit late, or in another order, are
-- counted by a later call. A combination of kind, lane and tenant that is new gets a series of its own while there is
-- room: three quarters of p_series are for any, the rest is for kinds without their tenants, and everything beyond is
-- (other). Two calls at once would wait for each other's rows; the second leaves. p_only: the increments to move, by
-- their names, NULL for all: a count that is refused keeps only its own increments. Returns how many were moved.
CREATE FUNCTION {schema}.counts_fold_only(p_batch integer, p_series integer, p_only text[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v_taken {schema}.count_increments[]; v_series integer; r record;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('{schema}.counts', 0)) THEN RETURN 0; END IF;
  WITH gone AS (
    DELETE FROM {schema}.count_increments i
     WHERE i.ctid = ANY (ARRAY(SELECT x.ctid FROM {schema}.count_increments x
                                WHERE p_only IS NULL OR {schema}.count_increment_name(x) = ANY (p_only) LIMIT p_batch)) RETURNING i)
  SELECT array_agg(g.i) INTO v_taken FROM gone g;
  IF v_taken IS NULL THEN RETURN 0; END IF;
  SELECT count(*) INTO v_series FROM {schema}.count_series;
  FOR r IN
      SELECT DISTINCT t.kind, t.lane, t.tenant FROM unnest(v_taken) AS t
       WHERE NOT EXISTS (SELECT 1 FROM {schema}.count_series s WHERE (s.kind, s.lane, s.tenant) = (t.kind, t.lane, t.tenant))
       ORDER BY 1, 2, 3 LOOP
    IF v_series < p_series * 3 / 4 THEN
      INSERT INTO {schema}.count_series (kind, lane, tenant) VALUES (r.kind, r.lane, r.tenant) ON CONFLICT DO NOTHING;
    ELSIF v_series < p_series THEN
      INSERT INTO {schema}.count_series (kind, lane, tenant) VALUES (r.kind, r.lane, '(other)') ON CONFLICT DO NOTHING;
    ELSE
      INSERT INTO {schema}.count_series (kind, lane, tenant) VALUES ('(other)', '(other)', '(other)') ON CONFLICT DO NOTHING;
    END IF;
    IF FOUND THEN v_series := v_series + 1; END IF;
  END LOOP;
  WITH named AS MATERIALIZED (
    SELECT t.at, coalesce(nullif(t.outcome, ''), t.state) AS outcome, t.state, t.n, m.measure, m.bucket, m.seconds,
           CASE WHEN s.kind IS NULL AND o.kind IS NULL THEN '(other)' ELSE t.kind END AS kind,
           CASE WHEN s.kind IS NULL AND o.kind IS NULL THEN '(other)' ELSE t.lane END AS lane,
           CASE WHEN s.kind IS NULL THEN '(other)' ELSE t.tenant END AS tenant
      FROM unnest(v_taken) AS t
      LEFT JOIN {schema}.count_series s ON (s.kind, s.lane, s.tenant) = (t.kind, t.lane, t.tenant)
      LEFT JOIN {schema}.count_series o ON (o.kind, o.lane, o.tenant) = (t.kind, t.lane, '(other)')
     CROSS JOIN LATERAL (VALUES
       (CASE WHEN t.run_bucket IS NULL THEN 'none' ELSE 'run' END, coalesce(t.run_bucket, 0::smallint), t.run_seconds),
       ('wait', t.wait_bucket, t.wait_seconds)) AS m(measure, bucket, seconds)
     WHERE m.bucket IS NOT NULL),
  minutes AS (
    INSERT INTO {schema}.counts_by_minute AS c (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)
    SELECT date_trunc('minute', d.at, 'UTC'), d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds)
      FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (since, kind, lane, tenant, outcome, state, measure, bucket)
    DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds),
  tens AS (
    INSERT INTO {schema}.counts_by_ten_minutes AS c (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)
    SELECT date_bin('10 min', d.at, timestamptz 'epoch'), d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds)
      FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (since, kind, lane, tenant, outcome, state, measure, bucket)
    DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds),
  hours AS (
    INSERT INTO {schema}.counts_by_hour AS c (since, kind, lane, tenant, outcome, state, measure, bucket, n, seconds)
    SELECT date_trunc('hour', d.at, 'UTC'), d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds)
      FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (since, kind, lane, tenant, outcome, state, measure, bucket)
    DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds)
  INSERT INTO {schema}.count_totals AS c (kind, lane, tenant, outcome, state, measure, bucket, n, seconds, counted_at)
  SELECT d.kind, d.lane, d.tenant, d.outcome, d.state, d.measure, d.bucket, sum(d.n), sum(d.seconds), max(d.at)
    FROM named d GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
  ON CONFLICT (kind, lane, tenant, outcome, state, measure, bucket)
  DO UPDATE SET n = c.n + excluded.n, seconds = c.seconds + excluded.seconds, counted_at = greatest(c.counted_at, excluded.counted_at);
  RETURN cardinality(v_taken);
END $$;

-- For code of the release before, which knows no increments by name.
CREATE FUNCTION {schema}.counts_fold(p_batch integer, p_series integer) RETURNS integer LANGUAGE sql AS $$
  SELECT {schema}.counts_fold_only(p_batch, p_series, NULL)
$$;
