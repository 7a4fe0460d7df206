-- works with: 0013
-- Sums over what happened, counted by servers: package engine's stored forms.
-- The tenant '' stands for all together.

-- What each server has counted in each minute.
CREATE TABLE tenant_minutes (
	at     timestamptz NOT NULL,
	server uuid NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	counts bytea NOT NULL,
	PRIMARY KEY (tenant, at, server)
) WITH (fillfactor = 70);
CREATE INDEX tenant_minutes_age ON tenant_minutes (at);

-- How much waited and ran. That of all is there for each minute that someone looked at.
CREATE TABLE depths (
	at     timestamptz NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	queues bytea NOT NULL,
	PRIMARY KEY (tenant, at)
);
CREATE INDEX depths_age ON depths (at);

-- What came of a job's executions, day by day. A month is year * 12 + month - 1.
CREATE TABLE job_months (
	job    uuid NOT NULL,
	month  int NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	days   bytea NOT NULL,
	PRIMARY KEY (tenant, job, month)
) WITH (fillfactor = 70);
ALTER TABLE job_months ALTER COLUMN days SET STORAGE PLAIN;
CREATE INDEX job_months_age ON job_months (month);

-- What executions failed with, hour by hour.
CREATE TABLE failures (
	hour        timestamptz NOT NULL,
	first_at    timestamptz NOT NULL,
	last_at     timestamptz NOT NULL,
	failed      bigint NOT NULL,
	retried     bigint NOT NULL,
	job         uuid NOT NULL,
	execution   uuid NOT NULL, -- the last of them
	tenant      text COLLATE "C" NOT NULL,
	fingerprint bytea NOT NULL,
	PRIMARY KEY (tenant, hour, fingerprint, job)
) WITH (fillfactor = 70);
CREATE INDEX failures_job ON failures (tenant, job, hour);
CREATE INDEX failures_age ON failures (hour);

-- What the fingerprints stand for.
CREATE TABLE fingerprints (
	seen_at     timestamptz NOT NULL, -- about
	tenant      text COLLATE "C" NOT NULL,
	fingerprint bytea NOT NULL,
	type        text NOT NULL,
	message     text NOT NULL,
	sample      text NOT NULL,
	PRIMARY KEY (tenant, fingerprint)
);
CREATE INDEX fingerprints_age ON fingerprints (seen_at);

-- Up to which number each server's tallies are in these tables.
CREATE TABLE tally_marks (
	server uuid PRIMARY KEY,
	number bigint NOT NULL,
	at     timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Jobs as they were before they were changed, and who changed them.
CREATE TABLE job_revisions (
	replaced_at  timestamptz NOT NULL,
	updated_at   timestamptz NOT NULL, -- when it was made
	paused_until timestamptz,
	job          uuid NOT NULL,
	revision     int NOT NULL,
	state        smallint NOT NULL,
	kind         smallint NOT NULL,
	priority     smallint NOT NULL,
	same_payload boolean NOT NULL, -- as the revision after it has, and payload is NULL
	tenant       text COLLATE "C" NOT NULL,
	by_whom      text NOT NULL, -- of the change that replaced it; '': the product itself
	role         text NOT NULL,
	action       text NOT NULL,
	name         text NOT NULL,
	pause_note   text,
	tags         text[],
	spec         bytea NOT NULL,
	target       bytea NOT NULL,
	payload      bytea,
	PRIMARY KEY (tenant, job, revision)
);

-- Since when less of a tenant's history is kept than before: what is too much is dropped a week later.
ALTER TABLE tenants ADD COLUMN history_cut_at timestamptz;
UPDATE tenants SET history_cut_at = now();
