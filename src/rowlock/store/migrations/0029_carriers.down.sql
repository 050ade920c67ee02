ALTER TABLE {schema}.workers DROP COLUMN carriers;
