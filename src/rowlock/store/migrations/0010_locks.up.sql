-- Locks of the application: who holds one, who waits for it, and since when. PostgreSQL's advisory locks are the truth and go
-- with the connection of a process that dies; these rows only name them. So the table is not logged: a server that crashes
-- forgets the rows together with the locks, and taking a lock waits for no disk.
-- session: a number that the process holds as an advisory lock of its own as long as its connection lives; n counts in it.
-- For code made for version 2 or later.
CREATE UNLOGGED TABLE {schema}.locks (
  session bigint NOT NULL, n bigint NOT NULL, pid integer NOT NULL, key bigint NOT NULL,
  namespace text NOT NULL, name text NOT NULL, held boolean NOT NULL,
  job_id bigint, kind text, process text NOT NULL,
  since timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session, n))
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
CREATE INDEX locks_key ON {schema}.locks (key, since);

-- lock_release: a function because each of its statements sees what was committed before that statement. A waiter writes its row
-- and then tries once more; so either that try comes after the unlock, or the row is seen by the search after the unlock and
-- its process is told. One statement with one snapshot would leave a gap between the two.
-- Answers whether the lock was held at all, and whose turn it is: the session that has waited longest.
CREATE FUNCTION {schema}.lock_release(p_key bigint, p_session bigint, p_n bigint, p_channel text)
RETURNS TABLE (was_held boolean, heir bigint) LANGUAGE plpgsql AS $$
BEGIN
  was_held := pg_advisory_unlock(p_key);
  DELETE FROM {schema}.locks k WHERE k.session = p_session AND k.n = p_n;
  SELECT k.session INTO heir FROM {schema}.locks k WHERE k.key = p_key AND NOT k.held ORDER BY k.since, k.session, k.n LIMIT 1;
  IF heir <> p_session THEN
    PERFORM pg_notify(p_channel, json_build_object('key', p_key::text, 'next', heir::text)::text);
  END IF;
  RETURN NEXT;
END $$;
