-- The workshop around the engine. Columns with a constant default only: no table is rewritten, the lock is momentary.

-- desk: a person asks a worker to leave; and how many slots it has where it does not go by the lane's own number.
ALTER TABLE {schema}.workers ADD COLUMN drain_requested boolean NOT NULL DEFAULT false;
ALTER TABLE {schema}.workers ADD COLUMN slots jsonb;
