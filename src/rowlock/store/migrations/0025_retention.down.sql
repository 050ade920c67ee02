-- What was ordered stays in `keep` until a worker starts whose code declares something else.
ALTER TABLE {schema}.retention DROP COLUMN ordered, DROP COLUMN declared;
