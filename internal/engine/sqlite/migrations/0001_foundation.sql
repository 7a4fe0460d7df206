-- Statuses, states, kinds and triggers are the numbers of package job. Spec,
-- target and ending are package engine's stored forms; nothing here looks
-- inside. Ids are 16 bytes; instants are microseconds since 1970, UTC.

CREATE TABLE tenants (
	id         TEXT NOT NULL PRIMARY KEY,
	created_at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
INSERT INTO tenants (id, created_at) VALUES ('default', unixepoch() * 1000000);

CREATE TABLE api_keys (
	id         TEXT NOT NULL PRIMARY KEY,
	tenant     TEXT NOT NULL,
	role       TEXT NOT NULL,
	name       TEXT NOT NULL,
	hash       BLOB NOT NULL UNIQUE,
	created_at INTEGER NOT NULL,
	expires_at INTEGER
) WITHOUT ROWID, STRICT;

-- What to run, when, and how failures are treated. A one-off job that is over
-- keeps the state ACTIVE: that it is COMPLETED follows from next_run_at and live,
-- so that finishing an execution writes no row here.
CREATE TABLE jobs (
	tenant      TEXT NOT NULL,
	id          BLOB NOT NULL,
	state       INTEGER NOT NULL,
	kind        INTEGER NOT NULL, -- of its schedule
	priority    INTEGER NOT NULL,
	revision    INTEGER NOT NULL,
	next_run_at INTEGER,
	fires_at    INTEGER, -- of a one-off job: the instant of its own fire; kept when that is over
	created_at  INTEGER NOT NULL,
	updated_at  INTEGER NOT NULL,
	key         TEXT,
	name        TEXT NOT NULL,
	description TEXT, -- a copy of the spec's, to be searched
	tags        TEXT, -- a JSON array
	spec        BLOB NOT NULL,
	target      BLOB NOT NULL,
	payload     BLOB,
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX jobs_key ON jobs (tenant, key) WHERE key IS NOT NULL AND state <> 4; -- deleting frees the key
CREATE INDEX jobs_due ON jobs (next_run_at) WHERE next_run_at IS NOT NULL;

-- Executions that have not finished. lease is the authority over each: above 0
-- it is leased under that token; else it is free, and the absolute value is the
-- last token it was leased under. No index names what a lease or a release
-- changes, so that the row alone is written.
CREATE TABLE live (
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
	tally         INTEGER NOT NULL, -- 0: it is a one-off job's own fire, see job_stats
	job           BLOB NOT NULL,
	worker        BLOB, -- who holds it, or held it last
	retry_of      BLOB,
	tenant        TEXT NOT NULL,
	class         TEXT NOT NULL, -- what it needs of a worker, as package job writes it
	cancel_at     INTEGER, -- when it was asked to stop, of what is leased
	cancel_reason TEXT,
	payload       BLOB -- NULL: the job's; last, for it may be long
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX live_fire ON live (job, scheduled_at, nonce);
CREATE INDEX live_lane ON live (part, tenant, class, priority, due_at, id);

-- Fencing tokens: the epoch of the store times 2^40, and a number.
CREATE TABLE tokens (next INTEGER NOT NULL) STRICT;
INSERT INTO tokens (next) VALUES (1099511627776);

-- The directory: what each lease commit gave to each session. Ids that have
-- finished or moved on no longer carry the token in live, and do not count.
CREATE TABLE leases (
	lease  INTEGER PRIMARY KEY,
	at     INTEGER NOT NULL,
	worker BLOB NOT NULL,
	ids    BLOB NOT NULL -- 16 bytes each
) STRICT;
CREATE INDEX leases_worker ON leases (worker);

CREATE TABLE sessions (
	id         BLOB NOT NULL PRIMARY KEY,
	deposed    INTEGER NOT NULL DEFAULT 0,
	started_at INTEGER,
	expires_at INTEGER NOT NULL,
	beat_at    INTEGER NOT NULL,
	capacity   INTEGER NOT NULL,
	running    INTEGER NOT NULL, -- this and the next three as it said last
	completed  INTEGER NOT NULL,
	failed     INTEGER NOT NULL,
	draining   INTEGER NOT NULL,
	tenant     TEXT, -- NULL: it serves every tenant
	host       TEXT NOT NULL,
	version    TEXT NOT NULL,
	secret     BLOB, -- a hash; NULL: it cannot be used over the network
	labels     TEXT, -- this and the next three: a JSON array, NULL for none
	queues     TEXT,
	targets    TEXT,
	kinds      TEXT
) WITHOUT ROWID, STRICT;

-- What sessions are to learn from their next beats. A cancel counts while live
-- carries its token, a lost for an hour.
CREATE TABLE orders (
	worker    BLOB NOT NULL,
	execution BLOB NOT NULL,
	token     INTEGER NOT NULL,
	kind      INTEGER NOT NULL,
	at        INTEGER NOT NULL, -- of a cancel: live's cancel_at
	PRIMARY KEY (worker, execution, token)
) WITHOUT ROWID, STRICT;
CREATE INDEX orders_age ON orders (kind, at);

-- Executions that have finished: written once, never changed.
CREATE TABLE executions (
	id           BLOB NOT NULL,
	job          BLOB NOT NULL,
	status       INTEGER NOT NULL,
	token        INTEGER NOT NULL, -- of the last lease; 0: there was none
	finished_at  INTEGER NOT NULL,
	scheduled_at INTEGER NOT NULL,
	due_at       INTEGER NOT NULL,
	started_at   INTEGER,
	attempt      INTEGER NOT NULL,
	tries        INTEGER NOT NULL,
	lost         INTEGER NOT NULL,
	max_attempts INTEGER NOT NULL,
	part         INTEGER NOT NULL,
	priority     INTEGER NOT NULL,
	trigger      INTEGER NOT NULL,
	worker       BLOB,
	retry_of     BLOB,
	tenant       TEXT NOT NULL,
	payload      BLOB,
	result       BLOB,
	ending       BLOB
) STRICT;
CREATE INDEX executions_id ON executions (id);
CREATE INDEX executions_job ON executions (job, scheduled_at, id);

-- What the finished executions of each job sum up to, kept as they finish. A
-- one-off job's own fire is left out, so that finishing it writes no row here:
-- there is one, and executions_job finds it by the job's fires_at.
CREATE TABLE job_stats (
	tenant           TEXT NOT NULL,
	job              BLOB NOT NULL,
	total            INTEGER NOT NULL,
	succeeded        INTEGER NOT NULL,
	timed            INTEGER NOT NULL, -- those that started
	sum_us           INTEGER NOT NULL, -- of their durations
	last_status      INTEGER NOT NULL, -- of the one that finished last
	last_finished_at INTEGER NOT NULL,
	last_run_at      INTEGER, -- when the latest of them started
	PRIMARY KEY (tenant, job)
) WITHOUT ROWID, STRICT;

-- How many of those that started took how long, by package job's buckets.
CREATE TABLE job_durations (
	tenant TEXT NOT NULL,
	job    BLOB NOT NULL,
	bucket INTEGER NOT NULL,
	n      INTEGER NOT NULL,
	PRIMARY KEY (tenant, job, bucket)
) WITHOUT ROWID, STRICT;

-- Attempts that failed or were lost.
CREATE TABLE attempts (
	execution  BLOB NOT NULL,
	token      INTEGER NOT NULL,
	number     INTEGER NOT NULL,
	lost       INTEGER NOT NULL, -- the lease ended without a result
	started_at INTEGER NOT NULL,
	ended_at   INTEGER NOT NULL,
	worker     BLOB,
	tenant     TEXT NOT NULL,
	ending     BLOB,
	PRIMARY KEY (execution, token)
) WITHOUT ROWID, STRICT;

-- Executions that failed for good, until they are rerun or discarded.
CREATE TABLE dead_letters (
	execution BLOB NOT NULL PRIMARY KEY,
	tenant    TEXT NOT NULL,
	job       BLOB NOT NULL,
	at        INTEGER NOT NULL,
	reason    TEXT NOT NULL,
	message   TEXT -- a copy of the last error's, to be searched
) WITHOUT ROWID, STRICT;
CREATE INDEX dead_letters_at ON dead_letters (tenant, at, execution);
CREATE INDEX dead_letters_job ON dead_letters (tenant, job, at, execution);

CREATE TABLE idempotency (
	tenant     TEXT NOT NULL,
	key        TEXT NOT NULL,
	expires_at INTEGER NOT NULL,
	hash       BLOB NOT NULL,
	answer     BLOB NOT NULL,
	PRIMARY KEY (tenant, key)
) WITHOUT ROWID, STRICT;
CREATE INDEX idempotency_expired ON idempotency (expires_at);
