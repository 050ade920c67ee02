-- Which jobs a worker leaves to carriers, so that explanations and the doctor do not ask for workers where a broker brings the
-- jobs. A column without a default on a small table: nothing is rewritten. Code of before writes NULL.
-- For code made for version 2 or later.

-- Written once, at the start; beats never touch it.
ALTER TABLE {schema}.workers ADD COLUMN carriers jsonb;
