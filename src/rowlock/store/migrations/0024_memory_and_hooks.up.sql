-- The memory of worker processes, and the hooks that ran after a job's outcomes. Online: a column without a default on a small
-- table, and an index that is built concurrently. Only the jobs of hooks are in it, so other jobs never write to it.
-- For code made for version 2 or later.

-- Last, after columns that are mostly NULL: a beat that changes it logs a handful of bytes more, and other beats none.
ALTER TABLE {schema}.workers ADD COLUMN memory bigint;

-- By the job that a hook runs after. As text: any job's kind may be spelled like a hook's, and a cast could fail on its arguments.
CREATE INDEX CONCURRENTLY jobs_hook_of ON {schema}.jobs ((args ->> 'job'), id) WHERE kind LIKE '%/on\_%';
