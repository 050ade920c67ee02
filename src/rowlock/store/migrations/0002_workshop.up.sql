-- What executors and the desk need beside the engine. Columns with a constant default: no rewrite, a lock of a moment.

-- A job whose worker process died is a suspect and runs alone in a child next time; only a death alone counts against it.
ALTER TABLE {schema}.jobs ADD COLUMN deaths smallint NOT NULL DEFAULT 0;

-- Whether workers can run the kind alone in a child. Of one that cannot be isolated every loss has to count.
ALTER TABLE {schema}.kinds ADD COLUMN isolates boolean NOT NULL DEFAULT false;

-- Slots held by handlers that were told to stop and do not; the order an operator gave the worker.
ALTER TABLE {schema}.workers ADD COLUMN stuck integer NOT NULL DEFAULT 0;
ALTER TABLE {schema}.workers ADD COLUMN told text CHECK (told IN ('drain'));

-- How many slots a worker has where it does not go by the lane's own number; NULL: the lanes' own. Tells who is full.
ALTER TABLE {schema}.workers ADD COLUMN slots jsonb;

-- Hooks of a kind by event, each with its own kind and the attempts it may take: where upkeep itself ends a job it inserts them too.
ALTER TABLE {schema}.kinds ADD COLUMN hooks jsonb;

-- The supervisor of a worker started by `rowlock worker --processes`: its process id on the worker's host.
ALTER TABLE {schema}.workers ADD COLUMN supervisor integer;
