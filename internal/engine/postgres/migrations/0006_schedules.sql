-- What changes each time a job fires stands apart from the rest of it: a wide row
-- is not written anew for it. Only a job that recurs, or that is to fire once and
-- later, has a row here. revision and active are the job's,
-- so that a fire looks at, and locks, this row alone. part follows from the job's
-- id and comes first: what fires together then lies together in both indexes.
CREATE TABLE schedules (
	next_run_at timestamptz,
	runs        bigint NOT NULL, -- how often it has fired, with what is staged
	job         uuid NOT NULL,
	revision    int NOT NULL,
	part        smallint NOT NULL,
	active      boolean NOT NULL, -- a paused job keeps its next instant, and is in nobody's way
	tenant      text COLLATE "C" NOT NULL
) WITH (
	fillfactor = 60, -- so that the new row most often finds room beside the old one
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 1,
	autovacuum_vacuum_cost_limit = 2000
);
-- 1 and 2 are the types that fire once.
INSERT INTO schedules (next_run_at, runs, job, revision, part, active, tenant)
SELECT next_run_at, runs, id, revision, part, state = 1, tenant FROM jobs
WHERE kind NOT IN (1, 2) OR next_run_at IS NOT NULL
ORDER BY part, id;
ALTER TABLE schedules ADD CONSTRAINT schedules_pkey PRIMARY KEY (part, job);
CREATE INDEX schedules_due ON schedules (part, next_run_at) WHERE active AND next_run_at IS NOT NULL;
DROP INDEX jobs_due;
ALTER TABLE jobs DROP COLUMN next_run_at, DROP COLUMN runs;
ANALYZE schedules;
