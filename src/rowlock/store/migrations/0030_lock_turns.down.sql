CREATE OR REPLACE FUNCTION {schema}.lock_release(p_key bigint, p_session bigint, p_n bigint, p_channel text)
RETURNS TABLE (was_held boolean, heir bigint) LANGUAGE plpgsql AS $$
BEGIN
  was_held := pg_advisory_unlock(p_key);
  DELETE FROM {schema}.locks k WHERE k.session = p_session AND k.n = p_n;
  SELECT k.session INTO heir FROM {schema}.locks k WHERE k.key = p_key AND NOT k.held ORDER BY k.since, k.session, k.n LIMIT 1;
  IF heir <> p_session AND pg_notification_queue_usage() < 0.9 THEN
    PERFORM pg_notify(p_channel, json_build_object('key', p_key::text, 'next', heir::text)::text);
  END IF;
  RETURN NEXT;
END $$;
