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
CREATE FUNCTION past_secret() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at) VALUES (OLD.tenant, OLD.name, OLD.job, OLD.key_id, OLD.sealed, now());
	RETURN NULL;
END $$;
CREATE TRIGGER past_secret_changed AFTER UPDATE OF version ON secrets FOR EACH ROW WHEN (NEW.version <> OLD.version) EXECUTE FUNCTION past_secret();
CREATE TRIGGER past_secret_dropped AFTER DELETE ON secrets FOR EACH ROW WHEN (OLD.expires_at IS NULL) EXECUTE FUNCTION past_secret();
