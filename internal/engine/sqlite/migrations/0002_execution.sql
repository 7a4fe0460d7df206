-- Tenants have a name and a tier.
ALTER TABLE tenants ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE tenants ADD COLUMN tier TEXT NOT NULL DEFAULT 'free';
UPDATE tenants SET name = id, tier = 'enterprise';

-- Executions that have not finished, as before, and now what limits, times and
-- names them. group_key and group_limits are what limits one beside its tenant
-- and queue; 0 and NULL: nothing. A group has a lane of its own, so that
-- what waits for it stands in nobody's way. The table is made anew to keep the
-- payload last: it may be long, and what lies behind it is slow to read.
-- What a one-off job fires as it is created has the job's id: it is found by
-- that, so that live_fire and executions_job leave it out, and so does job_stats.
CREATE TABLE live_next (
	id            BLOB NOT NULL PRIMARY KEY,
	lease         INTEGER NOT NULL DEFAULT 0,
	hold          INTEGER NOT NULL DEFAULT 0,
	due_at        INTEGER NOT NULL,
	scheduled_at  INTEGER NOT NULL,
	nonce         INTEGER NOT NULL,
	leased_at     INTEGER,
	started_at    INTEGER,
	attempt       INTEGER NOT NULL DEFAULT 0, -- leases, but for those handed back
	tries         INTEGER NOT NULL DEFAULT 0, -- failures that used up a retry
	lost          INTEGER NOT NULL DEFAULT 0, -- leases that ended without a result
	max_attempts  INTEGER NOT NULL,
	part          INTEGER NOT NULL,
	priority      INTEGER NOT NULL,
	trigger       INTEGER NOT NULL,
	job           BLOB NOT NULL,
	worker        BLOB, -- who holds it, or held it last
	retry_of      BLOB,
	tenant        TEXT NOT NULL,
	class         TEXT NOT NULL, -- what it needs of a worker, as package job writes it
	cancel_at     INTEGER, -- when it was asked to stop, of what is leased
	cancel_reason TEXT,
	group_key     INTEGER NOT NULL DEFAULT 0,
	group_limits  BLOB, -- the greatest number at once, and the rate's count, microseconds and burst, of 8 bytes each
	timeout_ms    INTEGER NOT NULL DEFAULT 0, -- of an attempt; 0: nobody looks
	stall_ms      INTEGER,
	expires_at    INTEGER, -- not started by then, it expires
	unique_key    TEXT,
	progress_at   INTEGER,
	progress      BLOB,
	payload       BLOB -- NULL: the job's
) WITHOUT ROWID, STRICT;
INSERT INTO live_next (id, lease, hold, due_at, scheduled_at, nonce, leased_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger,
	job, worker, retry_of, tenant, class, cancel_at, cancel_reason, payload)
SELECT id, lease, hold, due_at, scheduled_at, nonce, leased_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger,
	job, worker, retry_of, tenant, class, cancel_at, cancel_reason, payload FROM live ORDER BY id;
DROP TABLE live;
ALTER TABLE live_next RENAME TO live;
CREATE UNIQUE INDEX live_fire ON live (job, scheduled_at, nonce) WHERE id <> job;
CREATE INDEX live_lane ON live (part, tenant, class, group_key, priority, due_at, id);
CREATE UNIQUE INDEX live_unique ON live (tenant, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX live_expires ON live (expires_at) WHERE expires_at IS NOT NULL AND started_at IS NULL;

-- Until now a one-off job's own fire was known by its instant; it had an id of its own, and counts like any other from here on.
CREATE TEMP TABLE own AS
	SELECT x.tenant, x.job, x.status, x.started_at, x.finished_at, max(0, x.finished_at - x.started_at) AS took
	FROM jobs j CROSS JOIN executions x INDEXED BY executions_job
	WHERE j.fires_at IS NOT NULL AND x.job = j.id AND x.scheduled_at = j.fires_at AND x.trigger = 1 AND x.tenant = j.tenant;
INSERT INTO job_stats (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at)
	SELECT tenant, job, 1, status = 10, started_at IS NOT NULL, coalesce(took, 0), status, finished_at, started_at FROM own WHERE true
	ON CONFLICT (tenant, job) DO UPDATE SET total = total + 1, succeeded = succeeded + excluded.succeeded,
		timed = timed + excluded.timed, sum_us = sum_us + excluded.sum_us,
		last_status = CASE WHEN excluded.last_finished_at < last_finished_at THEN last_status ELSE excluded.last_status END,
		last_finished_at = max(last_finished_at, excluded.last_finished_at),
		last_run_at = nullif(max(coalesce(last_run_at, 0), coalesce(excluded.last_run_at, 0)), 0);
INSERT INTO job_durations (tenant, job, bucket, n)
	SELECT tenant, job, CAST(floor(ln(max(took, 1)) / ln(1.1)) AS INTEGER), 1 FROM own WHERE took IS NOT NULL
	ON CONFLICT (tenant, job, bucket) DO UPDATE SET n = n + 1;
DROP TABLE own;
ALTER TABLE jobs DROP COLUMN fires_at;
DROP INDEX executions_job;
CREATE INDEX executions_job ON executions (job, scheduled_at, id) WHERE id <> job;

ALTER TABLE sessions ADD COLUMN drain INTEGER NOT NULL DEFAULT 0; -- it was asked to take nothing more

ALTER TABLE executions ADD COLUMN leased_at INTEGER; -- of the last attempt; NULL: started_at

ALTER TABLE dead_letters ADD COLUMN redrive_at INTEGER; -- when it is run again by itself
CREATE INDEX dead_letters_redrive ON dead_letters (redrive_at) WHERE redrive_at IS NOT NULL;

-- What happened to executions that neither their row nor their attempts tell.
CREATE TABLE events (
	execution BLOB NOT NULL,
	kind      TEXT NOT NULL,
	token     INTEGER NOT NULL, -- 0: under no lease; a rerun: of the new execution, so that two are told apart
	at        INTEGER NOT NULL,
	attempt   INTEGER NOT NULL DEFAULT 0,
	worker    BLOB,
	tenant    TEXT NOT NULL,
	note      TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (execution, kind, token)
) WITHOUT ROWID, STRICT;

-- Work over many things.
CREATE TABLE operations (
	id          BLOB NOT NULL PRIMARY KEY,
	tenant      TEXT NOT NULL,
	kind        TEXT NOT NULL,
	state       TEXT NOT NULL,
	created_at  INTEGER NOT NULL,
	updated_at  INTEGER NOT NULL,
	finished_at INTEGER,
	taken_until INTEGER, -- someone works at it
	total       INTEGER NOT NULL,
	done        INTEGER NOT NULL,
	passed      INTEGER NOT NULL,
	rate        REAL NOT NULL,
	version     INTEGER NOT NULL,
	by_whom     TEXT NOT NULL,
	error       TEXT NOT NULL,
	spec        BLOB NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX operations_tenant ON operations (tenant, created_at, id);
CREATE INDEX operations_running ON operations (updated_at) WHERE finished_at IS NULL;
CREATE INDEX operations_finished ON operations (finished_at) WHERE finished_at IS NOT NULL;

-- Limits over a tenant (queue '') and its queues.
CREATE TABLE limits (
	tenant         TEXT NOT NULL,
	queue          TEXT NOT NULL,
	max_concurrent INTEGER NOT NULL, -- 0: any number
	rate_count     INTEGER NOT NULL, -- 0: any number
	rate_us        INTEGER NOT NULL,
	rate_burst     INTEGER NOT NULL,
	PRIMARY KEY (tenant, queue)
) WITHOUT ROWID, STRICT;

-- Buckets that rates are drawn from: full_us is when, in microseconds since 1970,
-- the bucket would be full again.
CREATE TABLE buckets (
	bucket  TEXT NOT NULL PRIMARY KEY,
	full_us INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX buckets_age ON buckets (full_us);
