-- Rows that a function passes over because a trigger or constraint refuses them.

-- Says so to the session that called, as a warning whose detail is JSON: {job or row, step, error}. A worker notes it
-- like any row that it has set aside (store/driver/server_warnings.py); for other clients it is a line to read. p_job:
-- the job; NULL: p_row names the row of another table. p_step: what does not happen to it.
CREATE FUNCTION {schema}.warn_refused(p_job bigint, p_row text, p_step text, p_error text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE WARNING 'rowlock: %: its % is refused: %', coalesce('job ' || p_job, p_row), p_step, p_error
    USING DETAIL = jsonb_strip_nulls(jsonb_build_object('job', p_job, 'row', p_row, 'step', p_step, 'error', p_error))::text;
END $$;
