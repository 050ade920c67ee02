ALTER TABLE {schema}.tokens DROP COLUMN previous_until, DROP COLUMN previous_hash;
DELETE FROM {schema}.duties WHERE name = 'seal';
DROP TRIGGER wait_for_seal ON {schema}.audit;
DROP FUNCTION {schema}.audit_seal(integer);
DROP FUNCTION {schema}.audit_wait_for_seal();
DROP FUNCTION {schema}.audit_hash(bigint, bytea, {schema}.audit);
DROP FUNCTION {schema}.audit_text(bigint, {schema}.audit);
DROP TABLE {schema}.audit_unsealed;
DROP TABLE {schema}.audit_seals;
