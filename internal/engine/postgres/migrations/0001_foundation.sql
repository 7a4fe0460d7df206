-- Statuses, states, kinds and triggers are the numbers of package job. Spec,
-- target and ending are package engine's stored forms; nothing here looks inside.

CREATE TABLE tenants (
	id         text COLLATE "C" PRIMARY KEY,
	created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO tenants (id) VALUES ('default');

CREATE TABLE api_keys (
	id         text COLLATE "C" PRIMARY KEY,
	tenant     text COLLATE "C" NOT NULL,
	role       text NOT NULL,
	name       text NOT NULL,
	hash       bytea NOT NULL UNIQUE,
	created_at timestamptz NOT NULL,
	expires_at timestamptz
);

-- What to run, when, and how failures are treated. A one-off job that is over
-- keeps the state ACTIVE: that it is COMPLETED follows from next_run_at and live,
-- so that finishing an execution writes no row here.
CREATE TABLE jobs (
	created_at   timestamptz NOT NULL,
	updated_at   timestamptz NOT NULL,
	next_run_at  timestamptz,
	max_attempts int NOT NULL,
	revision     int NOT NULL,
	state        smallint NOT NULL,
	kind         smallint NOT NULL, -- of its schedule
	part         smallint NOT NULL,
	priority     smallint NOT NULL,
	id           uuid NOT NULL,
	tenant       text COLLATE "C" NOT NULL,
	key          text COLLATE "C",
	name         text NOT NULL,
	description  text, -- a copy of the spec's, to be searched
	tags         text[],
	spec         bytea NOT NULL,
	target       bytea NOT NULL,
	payload      bytea,
	PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX jobs_key ON jobs (tenant, key) WHERE key IS NOT NULL AND state <> 4; -- deleting frees the key
CREATE INDEX jobs_due ON jobs (part, next_run_at) WHERE next_run_at IS NOT NULL;

-- Executions that have not finished. lease is the authority over each: above 0
-- it is leased under that token; else it is free, and the absolute value is the
-- last token it was leased under. No index may name what a lease or a release
-- changes (lease, leased_at, started_at, worker, attempt, lost, cancel_at): with
-- room left in each page the update then touches no index.
CREATE TABLE live (
	due_at        timestamptz NOT NULL,
	scheduled_at  timestamptz NOT NULL,
	nonce         bigint NOT NULL,
	lease         bigint NOT NULL DEFAULT 0,
	leased_at     timestamptz,
	started_at    timestamptz,
	cancel_at     timestamptz, -- when it was asked to stop; only while it is leased
	attempt       int NOT NULL DEFAULT 0, -- leases, but for those handed back
	tries         int NOT NULL DEFAULT 0, -- failures that used up a retry
	lost          int NOT NULL DEFAULT 0, -- leases that ended without a result
	max_attempts  int NOT NULL,
	part          smallint NOT NULL,
	priority      smallint NOT NULL,
	trigger       smallint NOT NULL,
	hold          smallint NOT NULL DEFAULT 0,
	tally         boolean NOT NULL DEFAULT true, -- counted in job_stats at its end
	id            uuid PRIMARY KEY,
	job           uuid NOT NULL,
	worker        uuid, -- who holds it, or held it last
	retry_of      uuid,
	tenant        text COLLATE "C" NOT NULL,
	class         text COLLATE "C" NOT NULL, -- what it needs of a worker
	payload       bytea, -- NULL: the job's
	cancel_ending bytea, -- its ending, should the cancel end it
	CONSTRAINT live_fire UNIQUE (job, scheduled_at, nonce)
) WITH (
	fillfactor = 45,
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 1,
	autovacuum_vacuum_cost_limit = 2000
);
CREATE INDEX live_lane ON live (part, tenant, class, priority, due_at, id) WHERE part >= 0; -- always so; see plans.go

-- Fencing tokens: the epoch of the store times 2^40, and a number. They are drawn
-- one by one, since a row is leased only under a greater token than its last.
CREATE SEQUENCE tokens START 1099511627776 MINVALUE 1099511627776 CACHE 1;

-- The directory: what each lease commit gave to each session. Ids that have
-- finished or moved on no longer carry the token in live, and do not count.
CREATE TABLE leases (
	lease  bigint PRIMARY KEY,
	at     timestamptz NOT NULL,
	worker uuid NOT NULL,
	ids    uuid[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE leases ALTER ids SET STORAGE EXTERNAL;
CREATE INDEX leases_worker ON leases (worker);

CREATE TABLE sessions (
	started_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	beat_at    timestamptz NOT NULL,
	completed  bigint NOT NULL DEFAULT 0, -- this and the next three are as of its last beat
	failed     bigint NOT NULL DEFAULT 0,
	running    int NOT NULL DEFAULT 0,
	draining   boolean NOT NULL DEFAULT false,
	capacity   int NOT NULL,
	deposed    boolean NOT NULL DEFAULT false,
	id         uuid PRIMARY KEY,
	tenant     text COLLATE "C", -- NULL: it serves every tenant
	host       text NOT NULL,
	version    text NOT NULL,
	secret     bytea, -- a hash; NULL: it cannot be used over the network
	labels     text[],
	queues     text[], -- NULL: every queue
	targets    text[],
	kinds      text[]
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX sessions_deposed ON sessions (id) WHERE deposed;

-- What sessions are to learn from their next beats. A cancel counts while live
-- carries its token, a lost for an hour.
CREATE TABLE orders (
	token     bigint NOT NULL,
	at        timestamptz NOT NULL, -- of a cancel: live's cancel_at
	kind      smallint NOT NULL,
	worker    uuid NOT NULL,
	execution uuid NOT NULL,
	PRIMARY KEY (worker, execution, token)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX orders_age ON orders (kind, at);

-- Executions that have finished: written once, never changed, one table a day of
-- finishing (UTC), so that a day is archived and dropped whole. The one that a
-- one-off job itself fires is not tallied: statistics find it here, by an index
-- that holds nothing else, and ending it writes no other row.
CREATE TABLE executions (
	finished_at  timestamptz NOT NULL,
	scheduled_at timestamptz NOT NULL,
	due_at       timestamptz NOT NULL,
	started_at   timestamptz,
	token        bigint NOT NULL, -- of the last lease; 0: there was none
	attempt      int NOT NULL,
	tries        int NOT NULL,
	lost         int NOT NULL,
	max_attempts int NOT NULL,
	status       smallint NOT NULL,
	trigger      smallint NOT NULL,
	priority     smallint NOT NULL,
	part         smallint NOT NULL,
	tally        boolean NOT NULL DEFAULT true,
	id           uuid NOT NULL,
	job          uuid NOT NULL,
	worker       uuid,
	retry_of     uuid,
	tenant       text COLLATE "C" NOT NULL,
	payload      bytea,
	result       bytea,
	ending       bytea
) PARTITION BY RANGE (finished_at);
CREATE INDEX executions_id ON executions (id);
CREATE INDEX executions_job ON executions (job, scheduled_at, id) WHERE tally;
CREATE INDEX executions_fire ON executions (job, scheduled_at, id) WHERE NOT tally;

-- What a job's finished executions come to, and how many of them took how long
-- (job.Bucket): kept as they end.
CREATE TABLE job_stats (
	total            bigint NOT NULL,
	succeeded        bigint NOT NULL,
	timed            bigint NOT NULL, -- those that started
	sum_us           numeric NOT NULL, -- their durations
	last_finished_at timestamptz NOT NULL,
	last_run_at      timestamptz,
	last_status      smallint NOT NULL,
	job              uuid NOT NULL,
	tenant           text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, job)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE TABLE job_durations (
	n      bigint NOT NULL,
	bucket smallint NOT NULL,
	job    uuid NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, job, bucket)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Attempts that failed or were lost.
CREATE TABLE attempts (
	token      bigint NOT NULL,
	started_at timestamptz NOT NULL,
	ended_at   timestamptz NOT NULL,
	number     int NOT NULL,
	lost       boolean NOT NULL, -- the lease ended without a result
	execution  uuid NOT NULL,
	worker     uuid,
	tenant     text COLLATE "C" NOT NULL,
	ending     bytea,
	PRIMARY KEY (execution, token)
);

-- Executions that failed for good, until someone reruns or discards them.
CREATE TABLE dead_letters (
	at        timestamptz NOT NULL, -- when the execution finished
	execution uuid PRIMARY KEY,
	job       uuid NOT NULL,
	tenant    text COLLATE "C" NOT NULL,
	reason    text NOT NULL,
	message   text -- a copy of the last error's, to be searched
);
CREATE INDEX dead_letters_at ON dead_letters (tenant, at, execution);
CREATE INDEX dead_letters_job ON dead_letters (tenant, job, at, execution);

CREATE TABLE idempotency (
	expires_at timestamptz NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	key        text COLLATE "C" NOT NULL,
	hash       bytea NOT NULL,
	answer     bytea NOT NULL,
	PRIMARY KEY (tenant, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX idempotency_expired ON idempotency (expires_at);
