-- The chain of seals over the audit, which shows whether a line was changed or removed.

-- audit_text: the text of a line that is hashed behind the seal before it, for an export that can be checked without a database.
CREATE FUNCTION {schema}.audit_text(place bigint, line {schema}.audit) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array(place, line.id, extract(epoch FROM line.at), line.subject, line.kind, line.acting_for, line.tenant,
                           line.action, line.target, line.before, line.after, line.note, line.request_id, line.address)::text
$$;

-- audit_hash: what seals a line of the audit: its place in the chain, the seal before it, and every value of the line. Text
-- that does not depend on settings of the session: the instant is a number of seconds.
CREATE FUNCTION {schema}.audit_hash(place bigint, previous bytea, line {schema}.audit) RETURNS bytea
LANGUAGE sql STABLE AS $$
  SELECT sha256(convert_to(encode(previous, 'hex') || {schema}.audit_text(place, line), 'UTF8'))
$$;

-- audit_wait_for_seal: every new line is noted in the transaction that writes it, also by code that knows of no seals.
CREATE FUNCTION {schema}.audit_wait_for_seal() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.audit_unsealed (audit_id) SELECT a.id FROM added a;
  RETURN NULL;
END $$;

-- audit_seal: gives the committed lines that have no seal their places at the end of the chain, by id; returns how many. Lines are
-- sealed after their commit and not while they are written: a chain that every writer extends would have all changes wait for one
-- another. A line that commits late gets a later place. The lock keeps two sealers from extending the chain at once.
CREATE FUNCTION {schema}.audit_seal(most integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  line {schema}.audit;
  waiting bigint[];
  place bigint;
  last bytea;
  sealed integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('{schema}.audit_seals', 0));
  SELECT coalesce(array_agg(u.audit_id ORDER BY u.audit_id), '{}') INTO waiting
  FROM (SELECT q.audit_id FROM {schema}.audit_unsealed q ORDER BY q.audit_id LIMIT most) AS u;
  SELECT s.n, s.hash INTO place, last FROM {schema}.audit_seals s ORDER BY s.n DESC LIMIT 1;
  place := coalesce(place, 0);
  last := coalesce(last, '\x');
  FOR line IN SELECT a.* FROM {schema}.audit a WHERE a.id = ANY (waiting) ORDER BY a.id LOOP
    place := place + 1;
    last := {schema}.audit_hash(place, last, line);
    INSERT INTO {schema}.audit_seals (n, audit_id, hash) VALUES (place, line.id, last);
    sealed := sealed + 1;
  END LOOP;
  DELETE FROM {schema}.audit_unsealed q WHERE q.audit_id = ANY (waiting);
  RETURN sealed;
END $$;
