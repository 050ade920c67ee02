-- Messages to workers and waiters.

-- Sends ids in as many messages as they need: 300 ids of 19 digits stay below the 8000 bytes that PostgreSQL refuses, and
-- one message that is too long would fail the whole statement. p_word: cancel, lost or done; what each means is in
-- model/notify_messages.py.
CREATE FUNCTION {schema}.notify_ids(p_channel text, p_word text, p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- With a full queue of notifications the commit itself would fail: receivers look by themselves.
  IF pg_notification_queue_usage() >= 0.9 THEN RETURN; END IF;
  FOR i IN 1 .. coalesce(cardinality(p_ids), 0) BY 300 LOOP
    PERFORM pg_notify(p_channel, json_build_object(p_word, to_json(p_ids[i : i + 299]))::text);
  END LOOP;
END $$;
