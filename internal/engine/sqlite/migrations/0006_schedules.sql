-- What changes each time a job fires stands apart from the rest of it: a long row
-- is not written anew for it. Only a job that recurs, or that is to fire once and
-- later, has a row here. revision and active are the job's, so that a fire looks
-- at this row alone.
CREATE TABLE schedules (
	job         BLOB NOT NULL PRIMARY KEY,
	tenant      TEXT NOT NULL,
	next_run_at INTEGER,
	runs        INTEGER NOT NULL, -- how often it has fired, with what is staged
	revision    INTEGER NOT NULL,
	active      INTEGER NOT NULL -- a paused job keeps its next instant, and is not to be passed over again and again
) WITHOUT ROWID, STRICT;
-- 1 and 2 are the types that fire once.
INSERT INTO schedules (job, tenant, next_run_at, runs, revision, active)
	SELECT id, tenant, next_run_at, runs, revision, state = 1 FROM jobs WHERE kind NOT IN (1, 2) OR next_run_at IS NOT NULL ORDER BY id;
CREATE INDEX schedules_due ON schedules (next_run_at) WHERE active = 1 AND next_run_at IS NOT NULL;
DROP INDEX jobs_due;
ALTER TABLE jobs DROP COLUMN next_run_at;
ALTER TABLE jobs DROP COLUMN runs;
