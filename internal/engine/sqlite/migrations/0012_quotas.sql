-- What an operator has set for a tenant in place of its tier's quota: JSON, or ''.
ALTER TABLE tenants ADD COLUMN quotas TEXT NOT NULL DEFAULT '';

-- How many active jobs the tenants have that may not have any number: as they were
-- counted, and what was created since.
CREATE TABLE job_counts (
	tenant     TEXT NOT NULL PRIMARY KEY,
	active     INTEGER NOT NULL,
	counted_at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- The jobs that may be planned, to count them: IMMEDIATE ones (1) never are.
CREATE INDEX jobs_planned ON jobs (tenant, id) WHERE kind <> 1 AND state <> 4;
