-- What callbacks are signed with, sealed; the newest of a tenant has no end.
CREATE TABLE signing_secrets (
	created_at timestamptz NOT NULL,
	expires_at timestamptz,
	tenant     text COLLATE "C" NOT NULL,
	id         text COLLATE "C" NOT NULL,
	prefix     text NOT NULL, -- of the secret, for people
	sealed     bytea NOT NULL,
	PRIMARY KEY (tenant, id)
);

-- What the servers of an installation share, such as the key of callback tokens.
CREATE TABLE installation (
	name  text COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL
);

-- Executions whose target has taken them over and completes them itself: no worker
-- holds them, though they are leased, and they last until then at the most. A lease
-- and a release leave it alone, so that their updates still touch no index.
ALTER TABLE live ADD COLUMN parked_until timestamptz;
CREATE INDEX live_parked ON live (parked_until) WHERE parked_until IS NOT NULL;
