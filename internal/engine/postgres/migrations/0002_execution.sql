-- Tenants have a name and a tier.
ALTER TABLE tenants ADD COLUMN name text NOT NULL DEFAULT '', ADD COLUMN tier text NOT NULL DEFAULT 'free';
UPDATE tenants SET name = id, tier = 'enterprise';

-- Executions that have not finished, anew: what indexes name comes first, and nothing
-- before it may be NULL, since each update compares it and would else search for it
-- in the row. What a lease changes stands together, as only that is logged. lease is the authority over each: above 0 it is leased under that
-- token; else it is free, and the absolute value is the last token it was leased
-- under. No index may name what a lease or a release changes (lease, leased_at,
-- started_at, worker, attempt, lost, cancel_at, progress, progress_at): with room left
-- in each page the update then touches no index.
-- Not tallied is only the own fire of a one-off job that was stored with the job and
-- has its id: it is found by that, here and in history, and needs no index by job.
-- group_key, group_max and the rate are what limits an execution beside its tenant
-- and queue; 0 and NULL: nothing. A group has a lane of its own, so that what waits
-- for it stands in nobody's way.
CREATE TABLE live2 (
	due_at        timestamptz NOT NULL,
	scheduled_at  timestamptz NOT NULL,
	nonce         bigint NOT NULL,
	group_key     bigint NOT NULL DEFAULT 0,
	timeout_ms    bigint NOT NULL DEFAULT 0, -- of an attempt; 0: nobody looks
	id            uuid NOT NULL,
	job           uuid NOT NULL,
	tries         int NOT NULL DEFAULT 0, -- failures that used up a retry
	lost          int NOT NULL DEFAULT 0, -- leases that ended without a result
	max_attempts  int NOT NULL,
	part          smallint NOT NULL,
	priority      smallint NOT NULL,
	trigger       smallint NOT NULL,
	hold          smallint NOT NULL DEFAULT 0,
	tally         boolean NOT NULL DEFAULT true, -- counted in job_stats at its end
	tenant        text COLLATE "C" NOT NULL,
	class         text COLLATE "C" NOT NULL, -- what it needs of a worker
	lease         bigint NOT NULL DEFAULT 0,
	leased_at     timestamptz,
	started_at    timestamptz,
	attempt       int NOT NULL DEFAULT 0, -- leases, but for those handed back
	worker        uuid, -- who holds it, or held it last
	retry_of      uuid,
	cancel_at     timestamptz, -- when it was asked to stop; only while it is leased
	expires_at    timestamptz, -- not started by then, it expires
	stall_ms      bigint,
	rate_us       bigint,
	group_max     int,
	rate_count    int,
	rate_burst    int,
	unique_key    text COLLATE "C",
	payload       bytea, -- NULL: the job's
	cancel_ending bytea, -- its ending, should the cancel end it
	progress_at   timestamptz,
	progress      bytea
) WITH (
	fillfactor = 45,
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 1,
	autovacuum_vacuum_cost_limit = 2000
);
INSERT INTO live2 (due_at, scheduled_at, nonce, lease, leased_at, started_at, cancel_at, attempt, tries, lost, max_attempts, part, priority, trigger, hold, tally,
	id, job, worker, retry_of, tenant, class, payload, cancel_ending)
SELECT due_at, scheduled_at, nonce, lease, leased_at, started_at, cancel_at, attempt, tries, lost, max_attempts, part, priority, trigger, hold, tally OR id <> job,
	id, job, worker, retry_of, tenant, class, payload, cancel_ending FROM live;
DROP TABLE live;
ALTER TABLE live2 RENAME TO live;
ALTER TABLE live ADD CONSTRAINT live_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX live_fire ON live (job, scheduled_at, nonce) WHERE tally;
CREATE INDEX live_lane ON live (part, tenant, class, group_key, priority, due_at, id) WHERE part >= 0; -- always so; see plans.go
CREATE UNIQUE INDEX live_unique ON live (tenant, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX live_expires ON live (expires_at) WHERE expires_at IS NOT NULL;

ALTER TABLE sessions ADD COLUMN drain boolean NOT NULL DEFAULT false; -- it was asked to take nothing more

ALTER TABLE executions ADD COLUMN leased_at timestamptz; -- of the last attempt; NULL: started_at

ALTER TABLE dead_letters ADD COLUMN redrive_at timestamptz; -- when it is run again by itself
CREATE INDEX dead_letters_redrive ON dead_letters (redrive_at) WHERE redrive_at IS NOT NULL;

-- What happened to executions that neither their row nor their attempts tell.
CREATE TABLE events (
	at        timestamptz NOT NULL,
	token     bigint NOT NULL, -- 0: under no lease; a rerun: of the new execution, so that two are told apart
	attempt   int NOT NULL DEFAULT 0,
	execution uuid NOT NULL,
	worker    uuid,
	tenant    text COLLATE "C" NOT NULL,
	kind      text COLLATE "C" NOT NULL,
	note      text NOT NULL DEFAULT '',
	PRIMARY KEY (execution, kind, token)
);

-- Work over many things.
CREATE TABLE operations (
	created_at  timestamptz NOT NULL,
	updated_at  timestamptz NOT NULL,
	finished_at timestamptz,
	taken_until timestamptz, -- a server works at it
	total       bigint NOT NULL,
	done        bigint NOT NULL,
	passed      bigint NOT NULL,
	rate        double precision NOT NULL,
	version     int NOT NULL,
	id          uuid PRIMARY KEY,
	tenant      text COLLATE "C" NOT NULL,
	kind        text NOT NULL,
	state       text NOT NULL,
	by_whom     text NOT NULL,
	error       text NOT NULL,
	spec        bytea NOT NULL
);
CREATE INDEX operations_tenant ON operations (tenant, created_at, id);
CREATE INDEX operations_running ON operations (updated_at) WHERE finished_at IS NULL;
CREATE INDEX operations_finished ON operations (finished_at) WHERE finished_at IS NOT NULL;

-- Limits over a tenant (queue '') and its queues.
CREATE TABLE limits (
	max_concurrent int NOT NULL, -- 0: any number
	rate_count     int NOT NULL, -- 0: any number
	rate_burst     int NOT NULL,
	rate_us        bigint NOT NULL,
	tenant         text COLLATE "C" NOT NULL,
	queue          text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, queue)
);

-- Buckets that rates are drawn from: full_us is when, in microseconds since 1970,
-- the bucket would be full again. It changes with each draw, and no index may name it.
CREATE TABLE buckets (
	full_us bigint NOT NULL,
	bucket  text COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Servers over this database, and which of them owns which partition. expires_at
-- is written each second; the rows of partitions only when one moves, since leases
-- lock them.
CREATE TABLE servers (
	started_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	deposed    boolean NOT NULL DEFAULT false,
	hungry     boolean NOT NULL,
	id         uuid PRIMARY KEY,
	host       text NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE partitions (
	epoch  bigint NOT NULL DEFAULT 0,
	part   smallint PRIMARY KEY,
	owner  uuid,
	wanted uuid
) WITH (fillfactor = 50);
INSERT INTO partitions (part) SELECT generate_series(0, 63);

-- How much of a limit on what runs at once each server has for itself. The row of
-- server 0 is what all who borrow of it lock.
CREATE TABLE limit_shares (
	share  int NOT NULL,
	want   int NOT NULL, -- what it would have
	server uuid NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	queue  text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, queue, server)
);

-- All that was not tallied before has an id of its own, and is from now on.
WITH x AS (
	UPDATE executions SET tally = true WHERE NOT tally AND id <> job
	RETURNING tenant, job, id, status, started_at, finished_at, greatest(0, extract(epoch FROM finished_at - started_at) * 1000000) AS us
), stats AS (
	INSERT INTO job_stats AS s (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at)
	SELECT tenant, job, count(*), count(*) FILTER (WHERE status = 10), count(started_at), sum(us),
		(array_agg(status ORDER BY finished_at DESC, id DESC))[1], max(finished_at), max(started_at)
	FROM x GROUP BY tenant, job
	ON CONFLICT (tenant, job) DO UPDATE SET total = s.total + EXCLUDED.total, succeeded = s.succeeded + EXCLUDED.succeeded,
		timed = s.timed + EXCLUDED.timed, sum_us = s.sum_us + EXCLUDED.sum_us,
		last_status = CASE WHEN EXCLUDED.last_finished_at >= s.last_finished_at THEN EXCLUDED.last_status ELSE s.last_status END,
		last_finished_at = greatest(s.last_finished_at, EXCLUDED.last_finished_at), last_run_at = greatest(s.last_run_at, EXCLUDED.last_run_at)
)
INSERT INTO job_durations AS d (tenant, job, bucket, n)
SELECT tenant, job, floor(ln(greatest(1, us)::float8) / ln(1.1::float8))::int2, count(*) FROM x WHERE started_at IS NOT NULL GROUP BY 1, 2, 3
ON CONFLICT (tenant, job, bucket) DO UPDATE SET n = d.n + EXCLUDED.n;
DROP INDEX executions_fire;
