-- Advisory locks of ctx.lock() and app.lock().

-- A function, because each of its statements sees what was committed before that statement. A waiter writes its row and
-- then tries once more: so either that try comes after the unlock, or the search after the unlock finds the row and
-- notifies the waiter. One statement with one snapshot would leave a gap between the two. Answers whether the lock was
-- held at all, and the session that has waited longest. The message also names that session's waiter: a process that took the
-- lock without waiting for the message ignores it when it comes, instead of jumping the queue a second time.
CREATE FUNCTION {schema}.lock_release(p_key bigint, p_session bigint, p_n bigint, p_channel text)
RETURNS TABLE (was_held boolean, heir bigint) LANGUAGE plpgsql AS $$
DECLARE
  v_n bigint;
BEGIN
  was_held := pg_advisory_unlock(p_key);
  DELETE FROM {schema}.locks k WHERE k.session = p_session AND k.n = p_n;
  SELECT k.session, k.n INTO heir, v_n FROM {schema}.locks k
   WHERE k.key = p_key AND NOT k.held ORDER BY k.since, k.session, k.n LIMIT 1;
  IF heir <> p_session AND pg_notification_queue_usage() < 0.9 THEN
    PERFORM pg_notify(p_channel, json_build_object('key', p_key::text, 'next', heir::text, 'n', v_n)::text);
  END IF;
  RETURN NEXT;
END $$;
