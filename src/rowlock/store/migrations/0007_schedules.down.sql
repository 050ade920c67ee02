DELETE FROM {schema}.duties WHERE name = 'schedules';
DROP TABLE {schema}.calendar;
DROP TABLE {schema}.schedules;
