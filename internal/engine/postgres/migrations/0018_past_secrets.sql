-- works with: 0013
-- What secrets were before they were changed or deleted, sealed as it was: what was handed out before may still be told.
CREATE TABLE past_secrets (
	dropped_at timestamptz NOT NULL,
	job        uuid, -- that managed it; NULL: a person named it
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	key_id     text NOT NULL,
	sealed     bytea NOT NULL
);
CREATE INDEX past_secrets_whose ON past_secrets (tenant, job, dropped_at);
CREATE INDEX past_secrets_age ON past_secrets (dropped_at);
-- Only the newest are kept: 20 of a job, 20 of a name that a person gave, and of these 1000 and 1 MiB of a tenant. What
-- another transaction drops just now is left to it.
CREATE FUNCTION past_secret() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at) VALUES (OLD.tenant, OLD.name, OLD.job, OLD.key_id, OLD.sealed, clock_timestamp());
	IF OLD.job IS NOT NULL THEN
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM past_secrets WHERE tenant = OLD.tenant AND job = OLD.job ORDER BY dropped_at DESC OFFSET 20
			)) FOR UPDATE SKIP LOCKED));
	ELSE
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM past_secrets WHERE tenant = OLD.tenant AND job IS NULL AND name = OLD.name ORDER BY dropped_at DESC OFFSET 20
			)) FOR UPDATE SKIP LOCKED));
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE ctid = ANY (ARRAY(
				SELECT x.id FROM (
					SELECT ctid AS id, row_number() OVER newest AS n, sum(octet_length(sealed)) OVER newest AS bytes
					FROM past_secrets WHERE tenant = OLD.tenant AND job IS NULL
					WINDOW newest AS (ORDER BY dropped_at DESC ROWS UNBOUNDED PRECEDING)
				) x WHERE x.n > 1000 OR x.bytes > 1048576
			)) FOR UPDATE SKIP LOCKED));
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER past_secret_changed AFTER UPDATE OF version ON secrets FOR EACH ROW WHEN (NEW.version <> OLD.version) EXECUTE FUNCTION past_secret();
CREATE TRIGGER past_secret_dropped AFTER DELETE ON secrets FOR EACH ROW WHEN (OLD.expires_at IS NULL) EXECUTE FUNCTION past_secret();
