DROP TRIGGER webhook_job_added ON {schema}.jobs;
DROP TRIGGER webhook_job_changes ON {schema}.jobs;
DROP FUNCTION {schema}.webhook_job_added();
DROP FUNCTION {schema}.webhook_job_changes();
DROP FUNCTION {schema}.webhook_send(bigint[]);
DROP TABLE {schema}.webhook_secrets;
DROP TABLE {schema}.webhooks;
UPDATE {schema}.roles SET permissions = array_remove(permissions, 'webhooks:manage'), updated_at = now()
 WHERE 'webhooks:manage' = ANY (permissions);
