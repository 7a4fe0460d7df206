-- works with: 0013
-- What secrets were before they were changed or deleted, sealed as it was: what was handed out before may still be told.
CREATE TABLE past_secrets (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	job        BLOB, -- that managed it; NULL: a person named it
	key_id     TEXT NOT NULL,
	sealed     BLOB NOT NULL,
	dropped_at INTEGER NOT NULL
) STRICT;
CREATE INDEX past_secrets_whose ON past_secrets (tenant, job, dropped_at);
CREATE INDEX past_secrets_age ON past_secrets (dropped_at);
CREATE TRIGGER past_secret_changed AFTER UPDATE OF version ON secrets WHEN NEW.version <> OLD.version BEGIN
	INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at)
	VALUES (OLD.tenant, OLD.name, OLD.job, OLD.key_id, OLD.sealed, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER past_secret_dropped AFTER DELETE ON secrets WHEN OLD.expires_at IS NULL BEGIN
	INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at)
	VALUES (OLD.tenant, OLD.name, OLD.job, OLD.key_id, OLD.sealed, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
-- Only the newest are kept: 20 of a job, 20 of a name that a person gave, and of these 1000 and 1 MiB of a tenant.
CREATE TRIGGER past_secrets_of_job AFTER INSERT ON past_secrets WHEN NEW.job IS NOT NULL BEGIN
	DELETE FROM past_secrets WHERE rowid IN (
		SELECT rowid FROM past_secrets WHERE tenant = NEW.tenant AND job = NEW.job ORDER BY dropped_at DESC, rowid DESC LIMIT -1 OFFSET 20);
END;
CREATE TRIGGER past_secrets_of_people AFTER INSERT ON past_secrets WHEN NEW.job IS NULL BEGIN
	DELETE FROM past_secrets WHERE rowid IN (
		SELECT rowid FROM past_secrets WHERE tenant = NEW.tenant AND job IS NULL AND name = NEW.name ORDER BY dropped_at DESC, rowid DESC LIMIT -1 OFFSET 20);
	DELETE FROM past_secrets WHERE rowid IN (
		SELECT id FROM (
			SELECT rowid AS id, row_number() OVER newest AS n, sum(length(sealed)) OVER newest AS bytes
			FROM past_secrets WHERE tenant = NEW.tenant AND job IS NULL
			WINDOW newest AS (ORDER BY dropped_at DESC, rowid DESC ROWS UNBOUNDED PRECEDING)
		) WHERE n > 1000 OR bytes > 1048576);
END;
