-- What callbacks are signed with, sealed; the newest of a tenant has no end.
CREATE TABLE signing_secrets (
	tenant     TEXT NOT NULL,
	id         TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER,
	prefix     TEXT NOT NULL, -- of the secret, for people
	sealed     BLOB NOT NULL,
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;

-- What the servers of an installation share, such as the key of callback tokens.
CREATE TABLE installation (
	name  TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID, STRICT;

-- Executions whose target has taken them over and completes them itself: no worker
-- holds them, though they are leased, and they last until then at the most.
ALTER TABLE live ADD COLUMN parked_until INTEGER;
CREATE INDEX live_parked ON live (parked_until) WHERE parked_until IS NOT NULL;
