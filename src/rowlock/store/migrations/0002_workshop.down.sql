-- desk
ALTER TABLE {schema}.workers DROP COLUMN slots;
ALTER TABLE {schema}.workers DROP COLUMN drain_requested;
