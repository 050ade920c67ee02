ALTER TABLE {schema}.workers DROP COLUMN supervisor;
ALTER TABLE {schema}.kinds DROP COLUMN hooks;
ALTER TABLE {schema}.workers DROP COLUMN slots;
ALTER TABLE {schema}.workers DROP COLUMN told;
ALTER TABLE {schema}.workers DROP COLUMN stuck;
ALTER TABLE {schema}.kinds DROP COLUMN isolates;
ALTER TABLE {schema}.jobs DROP COLUMN deaths;
