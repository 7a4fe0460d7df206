-- What an operator has set for a tenant in place of its tier's quota: JSON, or ''.
ALTER TABLE tenants ADD COLUMN quotas text NOT NULL DEFAULT '';

-- How many active jobs the tenants have that may not have any number: as they were
-- counted, and what was created since. Creations lock their tenant's row.
CREATE TABLE job_counts (
	active     bigint NOT NULL,
	counted_at timestamptz NOT NULL,
	tenant     text COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- The jobs that may be planned, to count them: IMMEDIATE ones (1) never are.
CREATE INDEX jobs_planned ON jobs (tenant, part, id) WHERE kind <> 1 AND state <> 4;
