DELETE FROM {schema}.duties WHERE name = 'schedules';
DROP TABLE {schema}.schedules;
