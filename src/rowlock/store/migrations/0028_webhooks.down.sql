DROP TRIGGER webhook_job_added ON {schema}.jobs;
-- Runs after every statement that updates jobs, in its transaction: an end is counted exactly when it is accepted,
-- whichever path, release or SQL client wrote it. It only appends, so no writer waits for the counts of another. A
-- statement that only claims leaves at once: starts are ends of attempts plus running jobs. FULL JOIN and OFFSET 0: the
-- plan is kept from the first call on, usually one with a single row, and a full join is never a nested loop, which
-- would compare every row of a batch of 500 with every other. The subquery is entered only for the rows that need it.
-- A claim that its gate or rate puts back has no claimed_at any more, and was no attempt. An attempt that ends without
-- ending its job is described by its attempt row, unless no worker could read the job twice for the same cause. Only a
-- statement that wrote a failure reads its rows a second time, for the failure groups.
CREATE OR REPLACE FUNCTION {schema}.count_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE v_failed boolean;
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
  SELECT bool_or(d.state = 'failed' OR d.outcome IN ('failed', 'died', 'lost')) INTO v_failed FROM counted d;
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
  RETURN NULL;
END $$;
DROP FUNCTION {schema}.webhook_job_added();
DROP FUNCTION {schema}.webhook_send(bigint[], integer[], text[], text[], smallint[], text[], timestamptz[]);
DROP TABLE {schema}.webhook_secrets;
DROP TABLE {schema}.webhooks;
UPDATE {schema}.roles SET permissions = array_remove(permissions, 'webhooks:manage'), updated_at = now()
 WHERE 'webhooks:manage' = ANY (permissions);
