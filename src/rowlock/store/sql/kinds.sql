-- kinds: what workers have declared of their kinds, for upkeep and for processes without the code.

-- name: register_kinds
-- What upkeep, and a process without its code, must know of a kind; written only when it changed or was not seen for an
-- hour.
INSERT INTO {schema}.kinds AS k (name, on_worker_lost, max_losses, isolates, hooks, defaults)
SELECT d.name, d.on_worker_lost, d.max_losses, d.isolates, d.hooks, d.defaults
FROM unnest(:names::text[], :on_worker_lost::text[], :max_losses::smallint[], :isolates::boolean[], :hooks::jsonb[],
            :defaults::jsonb[]) AS d(name, on_worker_lost, max_losses, isolates, hooks, defaults)
ORDER BY 1
ON CONFLICT (name) DO UPDATE
SET on_worker_lost = excluded.on_worker_lost, max_losses = excluded.max_losses, isolates = excluded.isolates,
    hooks = excluded.hooks, defaults = excluded.defaults, seen_at = now()
WHERE (k.on_worker_lost, k.max_losses, k.isolates, k.hooks, k.defaults)
      IS DISTINCT FROM (excluded.on_worker_lost, excluded.max_losses, excluded.isolates, excluded.hooks, excluded.defaults)
   OR k.seen_at < now() - interval '1 hour'

-- name: set_own_approval
-- Which kinds let their submitters approve, after register_kinds; writes only what changed, so nearly always nothing.
-- Locked by name first, the order of register_kinds.
WITH changed AS MATERIALIZED (
  SELECT k.name FROM {schema}.kinds k
  WHERE k.name = ANY (:names::text[]) AND k.own_approval <> (k.name = ANY (:own::text[])) ORDER BY k.name FOR NO KEY UPDATE)
UPDATE {schema}.kinds k SET own_approval = k.name = ANY (:own::text[]) FROM changed c WHERE k.name = c.name

-- name: kind_names
-- The kinds that workers have declared.
SELECT k.name FROM {schema}.kinds k ORDER BY k.name
