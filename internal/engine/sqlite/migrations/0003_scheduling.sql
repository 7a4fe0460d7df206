-- How often a schedule has fired, and pauses.
ALTER TABLE jobs ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN paused_until INTEGER; -- when a pause ends by itself
ALTER TABLE jobs ADD COLUMN pause_note TEXT;
CREATE INDEX jobs_paused ON jobs (paused_until) WHERE paused_until IS NOT NULL AND state = 2;
DROP INDEX jobs_due; -- made anew: a paused job keeps its next instant, and is not to be passed over again and again
CREATE INDEX jobs_due ON jobs (next_run_at) WHERE next_run_at IS NOT NULL AND state = 1;

-- Named lists of what schedules leave out.
CREATE TABLE calendars (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	updated_at INTEGER NOT NULL,
	spec       BLOB NOT NULL,
	PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;
