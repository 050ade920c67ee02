DROP FUNCTION {schema}.lock_release(bigint, bigint, bigint, text);
DROP TABLE {schema}.locks;
