-- works with: 0013
-- While a table is as good as empty, several of its indexes may find a row for the same, and the planner takes the one that
-- was made last: for a job of a tenant jobs_name, which goes through all of the tenant's names. Servers keep such plans until
-- statistics are gathered, when there may be very many rows. So the keys of these tables are made anew, after their other
-- indexes; not where there are so many rows that there are statistics.
DO $$
DECLARE
	t text;
	few boolean;
	key pg_constraint;
BEGIN
	LOCK TABLE jobs, secrets IN ACCESS EXCLUSIVE MODE;
	ALTER TABLE secrets DROP CONSTRAINT secrets_tenant_job_fkey;
	FOREACH t IN ARRAY ARRAY['jobs', 'dead_letters', 'operations', 'tenant_minutes', 'depths', 'job_months', 'failures'] LOOP
		EXECUTE format('SELECT count(*) <= 50000 FROM (SELECT FROM %I LIMIT 50001) r', t) INTO few;
		IF few THEN
			SELECT * INTO key FROM pg_constraint WHERE conrelid = t::regclass AND contype = 'p';
			EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I, ADD CONSTRAINT %2$I %s', t, key.conname, pg_get_constraintdef(key.oid));
		END IF;
	END LOOP;
	ALTER TABLE secrets ADD FOREIGN KEY (tenant, job) REFERENCES jobs (tenant, id) ON DELETE CASCADE;
END $$;
