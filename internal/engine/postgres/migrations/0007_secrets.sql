-- What jobs name without showing it, sealed before it comes here.
CREATE TABLE secrets (
	created_at timestamptz NOT NULL,
	updated_at timestamptz NOT NULL,
	expires_at timestamptz, -- its job was deleted
	version    int NOT NULL,
	job        uuid, -- that manages it; NULL: a person named it
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	key_id     text NOT NULL, -- what it is sealed under
	sealed     bytea NOT NULL,
	PRIMARY KEY (tenant, name),
	FOREIGN KEY (tenant, job) REFERENCES jobs (tenant, id) ON DELETE CASCADE
);
CREATE INDEX secrets_job ON secrets (tenant, job) WHERE job IS NOT NULL;
CREATE INDEX secrets_expired ON secrets (expires_at) WHERE expires_at IS NOT NULL;
