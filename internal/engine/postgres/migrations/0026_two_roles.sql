-- works with: 0013
-- Servers may run with a role that owns no table: what makes the table of a day is a function of the owner's.
DO $do$
BEGIN
	EXECUTE format($make$
		CREATE FUNCTION carillon_make_day(day date) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
		DECLARE
			name text := 'executions_' || to_char(day, 'YYYYMMDD');
		BEGIN
			IF day NOT BETWEEN '1970-01-01' AND '9999-12-30' THEN
				RAISE EXCEPTION 'no table for the day %%: want one from 1970 to 9999', day;
			END IF;
			PERFORM pg_advisory_xact_lock(1130459748, hashtext(current_schema()));
			IF to_regclass(quote_ident(current_schema()) || '.' || name) IS NOT NULL THEN
				RETURN false;
			END IF;
			EXECUTE format('CREATE TABLE %%I (LIKE executions INCLUDING ALL)', name);
			-- Attaching it, unlike creating it as a part of executions, does not wait for those who read and write executions.
			EXECUTE format('ALTER TABLE executions ATTACH PARTITION %%I FOR VALUES FROM (%%L) TO (%%L)', name, day || ' 00:00:00+00', day + 1 || ' 00:00:00+00');
			RETURN true;
		END $body$
	$make$, current_schema());
END $do$;
REVOKE ALL ON FUNCTION carillon_make_day(date) FROM PUBLIC;

-- What a key is does not change, whoever asks: it ends sooner at the most.
CREATE FUNCTION carillon_keep_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a key keeps its id, tenant, role, hash and revocation, and ends no later than it did' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER api_keys_keep BEFORE UPDATE OF id, tenant, role, hash, created_at, expires_at, revoked_at ON api_keys FOR EACH ROW
	WHEN (NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.role <> OLD.role OR NEW.hash <> OLD.hash OR NEW.created_at <> OLD.created_at
		OR OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)
		OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
	EXECUTE FUNCTION carillon_keep_key();
