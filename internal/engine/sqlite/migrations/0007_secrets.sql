-- What jobs name without showing it, sealed before it comes here.
CREATE TABLE secrets (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	version    INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	expires_at INTEGER, -- its job was deleted
	job        BLOB, -- that manages it; NULL: a person named it
	key_id     TEXT NOT NULL, -- what it is sealed under
	sealed     BLOB NOT NULL,
	PRIMARY KEY (tenant, name)
) STRICT;
CREATE INDEX secrets_job ON secrets (tenant, job) WHERE job IS NOT NULL;
CREATE INDEX secrets_expired ON secrets (expires_at) WHERE expires_at IS NOT NULL;
CREATE TRIGGER secrets_of_job AFTER DELETE ON jobs BEGIN
	DELETE FROM secrets WHERE tenant = OLD.tenant AND job = OLD.id AND job IS NOT NULL;
END;
