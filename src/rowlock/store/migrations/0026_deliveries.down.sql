DELETE FROM {schema}.duties WHERE name LIKE 'deliver %';
DROP TABLE {schema}.job_deliveries;
