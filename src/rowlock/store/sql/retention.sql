-- retention: how long ended jobs are kept. upkeep.sql removes them.

-- name: set_retention
-- What the code and the settings of a starting worker declare; what a person has ordered comes before it. A changed
-- rule judges everything again from the beginning.
INSERT INTO {schema}.retention AS r (kind, state, keep, declared)
SELECT d.kind, d.state, d.keep, d.keep
FROM unnest(:kinds::text[], :states::text[], :keeps::interval[]) AS d(kind, state, keep) ORDER BY 1, 2
ON CONFLICT (kind, state) DO UPDATE
SET declared = excluded.declared, keep = coalesce(r.ordered, excluded.keep),
    pruned_to = CASE WHEN r.keep = coalesce(r.ordered, excluded.keep) THEN r.pruned_to ELSE '-infinity' END
WHERE r.declared IS DISTINCT FROM excluded.declared OR r.keep <> coalesce(r.ordered, excluded.keep)

-- name: retention
-- Every rule; there are few. kind NULL: of all kinds.
SELECT r.kind, r.state, r.keep, r.declared, r.ordered FROM {schema}.retention r
WHERE :kind::text IS NULL OR r.kind = :kind::text ORDER BY r.kind <> '*', r.kind, r.state <> '*', r.state

-- name: retention_lock
-- Before a change, so that the audit names the value that it replaced. Waits for a round of prune under this rule.
SELECT r.kind, r.state, r.keep, r.declared, r.ordered FROM {schema}.retention r
WHERE r.kind = :kind::text AND r.state = :state::text FOR UPDATE

-- name: retention_order
-- A person's rule. With another time it judges everything again from the beginning.
INSERT INTO {schema}.retention AS r (kind, state, keep, ordered) VALUES (:kind::text, :state::text, :keep::interval, :keep::interval)
ON CONFLICT (kind, state) DO UPDATE
SET ordered = excluded.ordered, keep = excluded.keep,
    pruned_to = CASE WHEN r.keep = excluded.keep THEN r.pruned_to ELSE '-infinity' END
RETURNING r.kind, r.state, r.keep, r.declared, r.ordered

-- name: retention_reset
-- Back to what the code declares; a rule that only a person made goes away. Its jobs then belong to wider rules, whose
-- marks have passed them: those judge everything again, else the jobs would stay for ever.
WITH reset AS (
  UPDATE {schema}.retention r SET ordered = NULL, keep = r.declared,
         pruned_to = CASE WHEN r.keep = r.declared THEN r.pruned_to ELSE '-infinity' END
  WHERE r.kind = :kind::text AND r.state = :state::text AND r.declared IS NOT NULL
  RETURNING r.kind, r.state, r.keep, r.declared, r.ordered),
gone AS (
  DELETE FROM {schema}.retention r WHERE r.kind = :kind::text AND r.state = :state::text AND r.declared IS NULL
  RETURNING r.kind, r.state),
wider AS (
  UPDATE {schema}.retention r SET pruned_to = '-infinity' FROM gone g
  WHERE r.kind IN ('*', g.kind) AND r.state IN ('*', g.state) AND (r.kind, r.state) <> (g.kind, g.state))
SELECT reset.kind, reset.state, reset.keep, reset.declared, reset.ordered FROM reset
