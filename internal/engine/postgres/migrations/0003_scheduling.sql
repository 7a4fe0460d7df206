-- How often a schedule has fired, and pauses.
ALTER TABLE jobs
	ADD COLUMN runs bigint NOT NULL DEFAULT 0,
	ADD COLUMN paused_until timestamptz, -- when a pause ends by itself
	ADD COLUMN pause_note text;
CREATE INDEX jobs_paused ON jobs (paused_until) WHERE paused_until IS NOT NULL AND state = 2;
DROP INDEX jobs_due; -- a paused job keeps its next instant, and is in nobody's way
CREATE INDEX jobs_due ON jobs (part, next_run_at) WHERE next_run_at IS NOT NULL AND state = 1;

-- Named lists of what schedules leave out.
CREATE TABLE calendars (
	updated_at timestamptz NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	spec       bytea NOT NULL,
	PRIMARY KEY (tenant, name)
);

-- A partition is owned for a duty: 1 dispatching, 2 scheduling.
ALTER TABLE servers ADD COLUMN duty smallint NOT NULL DEFAULT 1;
ALTER TABLE partitions ADD COLUMN duty smallint NOT NULL DEFAULT 1;
ALTER TABLE partitions DROP CONSTRAINT partitions_pkey;
ALTER TABLE partitions ADD PRIMARY KEY (duty, part);
INSERT INTO partitions (duty, part) SELECT 2, generate_series(0, 63);
