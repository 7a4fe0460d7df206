-- works with: 0013
-- Sums over what happened, counted by servers: package engine's stored forms.
-- The tenant '' stands for all together.

-- What each server has counted in each minute.
CREATE TABLE tenant_minutes (
	tenant TEXT NOT NULL,
	at     INTEGER NOT NULL,
	server BLOB NOT NULL,
	counts BLOB NOT NULL,
	PRIMARY KEY (tenant, at, server)
) WITHOUT ROWID, STRICT;
CREATE INDEX tenant_minutes_age ON tenant_minutes (at);

-- How much waited and ran. That of all is there for each minute that someone looked at.
CREATE TABLE depths (
	tenant TEXT NOT NULL,
	at     INTEGER NOT NULL,
	queues BLOB NOT NULL,
	PRIMARY KEY (tenant, at)
) WITHOUT ROWID, STRICT;
CREATE INDEX depths_age ON depths (at);

-- What came of a job's executions, day by day. A month is year * 12 + month - 1.
CREATE TABLE job_months (
	tenant TEXT NOT NULL,
	job    BLOB NOT NULL,
	month  INTEGER NOT NULL,
	days   BLOB NOT NULL,
	PRIMARY KEY (tenant, job, month)
) WITHOUT ROWID, STRICT;
CREATE INDEX job_months_age ON job_months (month);

-- What executions failed with, hour by hour.
CREATE TABLE failures (
	tenant      TEXT NOT NULL,
	hour        INTEGER NOT NULL,
	fingerprint BLOB NOT NULL,
	job         BLOB NOT NULL,
	failed      INTEGER NOT NULL,
	retried     INTEGER NOT NULL,
	first_at    INTEGER NOT NULL,
	last_at     INTEGER NOT NULL,
	execution   BLOB NOT NULL, -- the last of them
	PRIMARY KEY (tenant, hour, fingerprint, job)
) WITHOUT ROWID, STRICT;
CREATE INDEX failures_job ON failures (tenant, job, hour);
CREATE INDEX failures_age ON failures (hour);

-- What the fingerprints stand for.
CREATE TABLE fingerprints (
	tenant      TEXT NOT NULL,
	fingerprint BLOB NOT NULL,
	seen_at     INTEGER NOT NULL, -- about
	type        TEXT NOT NULL,
	message     TEXT NOT NULL,
	sample      TEXT NOT NULL,
	PRIMARY KEY (tenant, fingerprint)
) WITHOUT ROWID, STRICT;
CREATE INDEX fingerprints_age ON fingerprints (seen_at);

-- Up to which number each server's tallies are in these tables.
CREATE TABLE tally_marks (
	server BLOB NOT NULL PRIMARY KEY,
	number INTEGER NOT NULL,
	at     INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX tally_marks_age ON tally_marks (at);

-- Jobs as they were before they were changed, and who changed them.
CREATE TABLE job_revisions (
	tenant       TEXT NOT NULL,
	job          BLOB NOT NULL,
	revision     INTEGER NOT NULL,
	replaced_at  INTEGER NOT NULL,
	updated_at   INTEGER NOT NULL, -- when it was made
	paused_until INTEGER,
	state        INTEGER NOT NULL,
	kind         INTEGER NOT NULL,
	priority     INTEGER NOT NULL,
	same_payload INTEGER NOT NULL, -- as the revision after it has, and payload is NULL
	by_whom      TEXT NOT NULL, -- of the change that replaced it; '': the product itself
	role         TEXT NOT NULL,
	action       TEXT NOT NULL,
	name         TEXT NOT NULL,
	pause_note   TEXT,
	tags         TEXT,
	spec         BLOB NOT NULL,
	target       BLOB NOT NULL,
	payload      BLOB,
	PRIMARY KEY (tenant, job, revision)
) WITHOUT ROWID, STRICT;

-- Since when less of a tenant's history is kept than before: what is too much is dropped a week later.
ALTER TABLE tenants ADD COLUMN history_cut_at INTEGER;
UPDATE tenants SET history_cut_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER);
