-- The schema, by subject:
--
--   tenants and keys · jobs and schedules · live work · sessions and leases ·
--   servers · limits · history · workflow runs · statistics · notifications · secrets and
--   signing · audit log · other settings
--
-- Numbers for statuses, states, kinds and triggers are those of package job.
-- Columns of type bytea named spec, target, ending and the like hold package
-- engine's stored forms; SQL never looks inside them.
--
-- Columns are ordered for size and speed: fixed-width columns first, widest
-- first, then text and bytea.
--
-- While a table is nearly empty, the planner may find several of its indexes
-- equally cheap for one row, and then takes the index that was created last.
-- Prepared statements keep such a plan until statistics are gathered, when the
-- table may be huge. So jobs, dead_letters, operations, tenant_minutes, depths,
-- job_months and failures get their primary key after their other indexes.

-- ── Tenants and keys ────────────────────────────────────────────────────────

CREATE TABLE tenants (
	id             text COLLATE "C" PRIMARY KEY,
	created_at     timestamptz NOT NULL DEFAULT now(),
	name           text NOT NULL DEFAULT '',
	tier           text NOT NULL DEFAULT 'free',
	quotas         text NOT NULL DEFAULT '', -- JSON: what an operator set in place of the tier's quotas; '': nothing
	history_cut_at timestamptz, -- when the history quota last became shorter; what no longer fits is dropped a week later
	reach          text NOT NULL DEFAULT '', -- private address ranges that callbacks may call, separated by commas
	https_only     boolean NOT NULL DEFAULT false -- callbacks must use https
);
CREATE INDEX tenants_reach ON tenants (id) WHERE reach <> '' OR https_only; -- the few tenants with rules of their own
INSERT INTO tenants (id, name, tier) VALUES ('default', 'default', 'enterprise');

CREATE TABLE api_keys (
	id         text COLLATE "C" PRIMARY KEY,
	tenant     text COLLATE "C" NOT NULL,
	role       text NOT NULL,
	name       text NOT NULL,
	hash       bytea NOT NULL UNIQUE,
	created_at timestamptz NOT NULL,
	expires_at timestamptz,
	revoked_at timestamptz,
	used_at    timestamptz -- accurate to about a minute
);
CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at, id);

-- Nobody changes what a key is, not even a server that was taken over: a key
-- can only end sooner.
CREATE FUNCTION carillon_keep_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a key keeps its id, tenant, role, hash and revocation, and ends no later than it did' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER api_keys_keep BEFORE UPDATE OF id, tenant, role, hash, created_at, expires_at, revoked_at ON api_keys FOR EACH ROW
	WHEN (NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.role <> OLD.role OR NEW.hash <> OLD.hash OR NEW.created_at <> OLD.created_at
		OR OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)
		OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
	EXECUTE FUNCTION carillon_keep_key();

-- Browsers that are signed in. hash is the hash of the cookie.
CREATE TABLE sign_ins (
	created_at timestamptz NOT NULL,
	used_at    timestamptz NOT NULL, -- accurate to about a minute
	ends_at    timestamptz NOT NULL,
	hash       bytea PRIMARY KEY,
	id         text COLLATE "C" NOT NULL,
	tenant     text COLLATE "C" NOT NULL, -- '': every tenant, with a worker's key
	role       text NOT NULL,
	name       text COLLATE "C" NOT NULL,
	key_id     text COLLATE "C" NOT NULL -- the API key that was used; '': a token
);
CREATE INDEX sign_ins_whose ON sign_ins (tenant, key_id, name, created_at);
CREATE INDEX sign_ins_end ON sign_ins (ends_at);

-- ── Jobs and schedules ──────────────────────────────────────────────────────

-- What to run, when, and what happens when it fails. A one-off job that is over
-- keeps the state ACTIVE: that it is COMPLETED follows from schedules and live,
-- so that finishing an execution writes no row here.
CREATE TABLE jobs (
	created_at   timestamptz NOT NULL,
	updated_at   timestamptz NOT NULL,
	max_attempts int NOT NULL,
	revision     int NOT NULL,
	state        smallint NOT NULL,
	kind         smallint NOT NULL, -- the type of its schedule
	part         smallint NOT NULL,
	priority     smallint NOT NULL,
	id           uuid NOT NULL,
	tenant       text COLLATE "C" NOT NULL,
	key          text COLLATE "C",
	name         text NOT NULL,
	description  text, -- a copy of the spec's, for search
	tags         text[],
	spec         bytea NOT NULL,
	target       bytea NOT NULL,
	payload      bytea,
	paused_until timestamptz, -- when a pause ends by itself
	pause_note   text
);
CREATE UNIQUE INDEX jobs_key ON jobs (tenant, key) WHERE key IS NOT NULL AND state <> 4; -- deleting a job frees its key
CREATE INDEX jobs_paused ON jobs (paused_until) WHERE paused_until IS NOT NULL AND state = 2;
CREATE INDEX jobs_planned ON jobs (tenant, part, id) WHERE kind <> 1 AND state < 4; -- counts jobs that may have a plan; IMMEDIATE ones (1) never do, nor those of nodes of workflows (state 5)
-- For lists by name, of paused or deleted jobs, and by type. The many IMMEDIATE
-- jobs are left out of the last: few people ask for them. So are jobs of nodes.
CREATE INDEX jobs_name ON jobs (tenant, name, id);
CREATE INDEX jobs_aside ON jobs (tenant, state, id) WHERE state IN (2, 4);
CREATE INDEX jobs_workflows ON jobs (tenant, id) WHERE substring(target FROM 1 FOR 15) = '\x7b226b223a22776f726b666c6f7722'::bytea; -- engine.WorkflowMark
CREATE INDEX jobs_kind ON jobs (tenant, kind, id) WHERE kind <> 1 AND state <> 5;
ALTER TABLE jobs ADD PRIMARY KEY (tenant, id);

-- The part of a job that changes each time it fires, so that firing does not
-- rewrite the wide row of the job. Only jobs that recur, or that fire once in
-- the future, have a row. revision and active are copies of the job's: firing
-- reads and locks this row alone. part follows from the job's id and comes
-- first, so that jobs which fire together are close together in both indexes.
CREATE TABLE schedules (
	next_run_at timestamptz,
	runs        bigint NOT NULL, -- how often it has fired, staged executions included
	job         uuid NOT NULL,
	revision    int NOT NULL,
	part        smallint NOT NULL,
	active      boolean NOT NULL, -- a paused job keeps next_run_at, but is not in the index
	tenant      text COLLATE "C" NOT NULL,
	PRIMARY KEY (part, job)
) WITH (
	fillfactor = 60, -- room for the new row version on the same page
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 1,
	autovacuum_vacuum_cost_limit = 2000
);
CREATE INDEX schedules_due ON schedules (part, next_run_at) WHERE active AND next_run_at IS NOT NULL;

-- Past revisions of jobs, and who replaced them.
CREATE TABLE job_revisions (
	replaced_at  timestamptz NOT NULL,
	updated_at   timestamptz NOT NULL, -- when this revision was made
	paused_until timestamptz,
	job          uuid NOT NULL,
	revision     int NOT NULL,
	state        smallint NOT NULL,
	kind         smallint NOT NULL,
	priority     smallint NOT NULL,
	same_payload boolean NOT NULL, -- the next revision has the same payload; payload is NULL here
	tenant       text COLLATE "C" NOT NULL,
	by_whom      text NOT NULL, -- who replaced it; '': Carillon itself
	role         text NOT NULL,
	action       text NOT NULL,
	name         text NOT NULL,
	pause_note   text,
	tags         text[],
	spec         bytea NOT NULL,
	target       bytea NOT NULL,
	payload      bytea,
	PRIMARY KEY (tenant, job, revision)
);

-- Named lists of days and times that schedules skip.
CREATE TABLE calendars (
	updated_at timestamptz NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	spec       bytea NOT NULL,
	PRIMARY KEY (tenant, name)
);

-- Jobs that were paused or resumed while more executions waited than one
-- statement may hold or release. Executions up to behind are done.
CREATE TABLE settling (
	behind timestamptz NOT NULL,
	at     timestamptz NOT NULL, -- when the last batch was done
	job    uuid NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, job)
);

-- Answers to requests with an idempotency key.
CREATE TABLE idempotency (
	expires_at timestamptz NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	key        text COLLATE "C" NOT NULL,
	hash       bytea NOT NULL,
	answer     bytea NOT NULL,
	PRIMARY KEY (tenant, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX idempotency_expired ON idempotency (expires_at);

-- ── Live work ───────────────────────────────────────────────────────────────

-- Executions that have not finished.
--
-- lease decides who owns an execution. Above 0, it is leased under that fencing
-- token. Otherwise it is free, and the absolute value is the last token it was
-- leased under.
--
-- lane stands for partition, tenant and class, so that the index of lanes holds
-- nothing of varying length: the partition times 2^56, plus 56 bits of a hash
-- (engine.LaneNumber). If two classes of a partition share a number, the lanes
-- of the second are listed once those of the first are empty. A concurrency
-- group has a lane of its own, so that executions waiting for it block nobody.
--
-- Indexed columns come first, and none of them may be NULL: every update
-- compares them and would otherwise have to search the row for them. Columns
-- that a lease changes (lease to worker) are next to each other, since only the
-- changed bytes are logged. No index may name a column that a lease or a release
-- changes (lease, leased_at, started_at, worker, attempt, lost, cancel_at,
-- progress, progress_at): with room left in each page, such an update then
-- touches no index.
--
-- tally is false only for the execution that a one-off job was created with. It
-- has the job's id, is found by it, and needs no index by job.
CREATE TABLE live (
	lane          bigint NOT NULL,
	group_key     bigint NOT NULL DEFAULT 0, -- concurrency group; 0: none
	due_at        timestamptz NOT NULL,
	scheduled_at  timestamptz NOT NULL,
	nonce         bigint NOT NULL,
	id            uuid NOT NULL PRIMARY KEY,
	job           uuid NOT NULL,
	priority      smallint NOT NULL,
	part          smallint NOT NULL,
	trigger       smallint NOT NULL,
	hold          smallint NOT NULL DEFAULT 0, -- 1: its job is paused; 2: it waits for the jobs that its job depends on
	tally         boolean NOT NULL DEFAULT true, -- counted in job_stats when it ends
	tries         int NOT NULL DEFAULT 0, -- failures that used up a retry
	lost          int NOT NULL DEFAULT 0, -- leases that ended without a result
	max_attempts  int NOT NULL,
	timeout_ms    bigint NOT NULL DEFAULT 0, -- for one attempt; 0: none
	tenant        text COLLATE "C" NOT NULL,
	class         text COLLATE "C" NOT NULL, -- what a worker needs to run it
	lease         bigint NOT NULL DEFAULT 0,
	leased_at     timestamptz,
	started_at    timestamptz,
	attempt       int NOT NULL DEFAULT 0, -- leases, without those that were handed back
	worker        uuid, -- the session that holds it, or held it last
	retry_of      uuid,
	cancel_at     timestamptz, -- when a cancel was requested; only while it is leased
	expires_at    timestamptz, -- it expires unless it has started by then
	stall_ms      bigint,
	rate_us       bigint, -- the group's rate limit and concurrency limit; NULL: none
	group_max     int,
	rate_count    int,
	rate_burst    int,
	unique_key    text COLLATE "C",
	payload       bytea, -- NULL: the job's
	cancel_ending bytea, -- how it ends if the cancel ends it
	progress_at   timestamptz,
	progress      bytea,
	parked_until  timestamptz -- its target took it over and must complete it by then
) WITH (
	fillfactor = 45,
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 1,
	autovacuum_vacuum_cost_limit = 2000
);
CREATE UNIQUE INDEX live_fire ON live (job, scheduled_at, nonce) WHERE tally; -- an instant fires once
CREATE INDEX live_lane ON live (lane, group_key, priority, due_at, id) WHERE lane >= 0; -- true for every row; see plans.go
CREATE UNIQUE INDEX live_unique ON live (tenant, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX live_expires ON live (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX live_parked ON live (parked_until) WHERE parked_until IS NOT NULL;
CREATE INDEX live_dependent ON live (job, scheduled_at) WHERE hold = 2;
CREATE INDEX live_tenant ON live (tenant, scheduled_at, id) WHERE priority > 0; -- for lists; true for every row; see plans.go
CREATE INDEX live_runs ON live (tenant, scheduled_at, id) WHERE class = 'workflow'; -- runs that wait to begin, and those that have

-- Executions that were created together and have not needed a row of their own
-- since: one row for up to 32. They are the first executions of one-off jobs and
-- have the ids of these jobs.
CREATE TABLE bundles (
	lane         bigint NOT NULL,
	due_at       timestamptz NOT NULL,
	scheduled_at timestamptz NOT NULL,
	key          uuid PRIMARY KEY, -- the first of ids
	priority     smallint NOT NULL,
	part         smallint NOT NULL,
	max_attempts int NOT NULL,
	timeout_ms   bigint NOT NULL, -- for one attempt; 0: none
	tenant       text COLLATE "C" NOT NULL,
	class        text COLLATE "C" NOT NULL,
	lease        bigint NOT NULL DEFAULT 0, -- 0: all of them wait; otherwise all open ones run their first attempt
	leased_at    timestamptz,
	worker       uuid,
	open         bigint NOT NULL, -- one bit for each that has not finished
	ids          uuid[] NOT NULL, -- ascending
	groups       bigint[], -- the concurrency group of each; NULL: none has one
	group_max    int,
	rate_count   int,
	rate_us      bigint,
	rate_burst   int
) WITH (
	fillfactor = 30,
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 1,
	autovacuum_vacuum_cost_limit = 2000
);
CREATE INDEX bundles_lane ON bundles (lane, priority, due_at, key) WHERE lane >= 0; -- true for every row; see plans.go
CREATE INDEX bundles_tenant ON bundles (tenant, scheduled_at, key) WHERE priority > 0;

-- ── Sessions and leases ─────────────────────────────────────────────────────

-- Fencing tokens: the epoch of the store times 2^40, plus a number. They are
-- drawn one by one, because a row is leased only under a greater token than its
-- last.
CREATE SEQUENCE tokens START 1099511627776 MINVALUE 1099511627776 CACHE 1;

-- What each lease gave to a worker's session. An execution that has finished or
-- was leased again no longer carries the token in live and does not count.
CREATE TABLE leases (
	lease  bigint PRIMARY KEY,
	at     timestamptz NOT NULL,
	worker uuid NOT NULL,
	ids    uuid[] NOT NULL,
	keys   uuid[] -- of the bundles it gave; their executions are among ids, too
) WITH (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE leases ALTER ids SET STORAGE EXTERNAL, ALTER keys SET STORAGE EXTERNAL;
CREATE INDEX leases_worker ON leases (worker, (- lease)); -- a session's latest first; no other index has this order

-- Workers that are connected, and those that were.
CREATE TABLE sessions (
	started_at   timestamptz NOT NULL,
	expires_at   timestamptz NOT NULL,
	beat_at      timestamptz NOT NULL,
	completed    bigint NOT NULL DEFAULT 0, -- completed to draining: as of its last heartbeat
	failed       bigint NOT NULL DEFAULT 0,
	running      int NOT NULL DEFAULT 0,
	draining     boolean NOT NULL DEFAULT false,
	capacity     int NOT NULL,
	deposed      boolean NOT NULL DEFAULT false,
	id           uuid PRIMARY KEY,
	tenant       text COLLATE "C", -- NULL: it serves every tenant
	host         text NOT NULL,
	version      text NOT NULL,
	secret       bytea, -- a hash; NULL: it cannot be used over the network
	labels       text[],
	queues       text[], -- NULL: every queue
	targets      text[],
	kinds        text[],
	drain        boolean NOT NULL DEFAULT false, -- it was asked to take no more work
	cordoned     boolean NOT NULL DEFAULT false, -- it gets no more work until it is uncordoned
	memory_used  bigint NOT NULL DEFAULT 0, -- in bytes; 0: unknown
	memory_limit bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX sessions_deposed ON sessions (id) WHERE deposed;

-- What sessions learn from their next heartbeat: a cancel, valid while live
-- carries its token, or that a lease is lost, for an hour.
CREATE TABLE orders (
	token     bigint NOT NULL,
	at        timestamptz NOT NULL, -- of a cancel: live.cancel_at
	kind      smallint NOT NULL,
	worker    uuid NOT NULL,
	execution uuid NOT NULL,
	PRIMARY KEY (worker, execution, token)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX orders_age ON orders (kind, at);

-- ── Servers ─────────────────────────────────────────────────────────────────

-- Servers on this database, and which of them owns which partition for which
-- duty: 1 dispatching, 2 scheduling. expires_at is written every second; rows of
-- partitions only when a partition moves, because leases lock them.
CREATE TABLE servers (
	started_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	deposed    boolean NOT NULL DEFAULT false,
	waiting    boolean NOT NULL,
	slots      integer NOT NULL,
	id         uuid PRIMARY KEY,
	host       text NOT NULL,
	duty       smallint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);
CREATE TABLE partitions (
	epoch  bigint NOT NULL DEFAULT 0,
	part   smallint NOT NULL,
	owner  uuid,
	wanted uuid,
	duty   smallint NOT NULL DEFAULT 1,
	PRIMARY KEY (duty, part)
) WITH (fillfactor = 50);
INSERT INTO partitions (duty, part) SELECT d, p FROM generate_series(1, 2) d, generate_series(0, 63) p;

-- Values that all servers share, such as the key of callback tokens.
CREATE TABLE installation (
	name  text COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL
);

-- ── Limits ──────────────────────────────────────────────────────────────────

-- Limits of a tenant (queue '') and of its queues. A row may exist only because
-- its queue is paused: then nothing in it starts.
CREATE TABLE limits (
	max_concurrent int NOT NULL, -- 0: no limit
	rate_count     int NOT NULL, -- 0: no limit
	rate_burst     int NOT NULL,
	rate_us        bigint NOT NULL,
	tenant         text COLLATE "C" NOT NULL,
	queue          text COLLATE "C" NOT NULL,
	paused_at      timestamptz, -- NULL: it is not paused
	paused_until   timestamptz, -- NULL: until it is resumed
	paused_by      text NOT NULL DEFAULT '',
	pause_reason   text NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, queue)
);

-- Each server's share of a concurrency limit. Servers that borrow from a limit
-- lock its row with server 0.
CREATE TABLE limit_shares (
	share   int NOT NULL,
	want    int NOT NULL, -- how much it could use
	server  uuid NOT NULL,
	tenant  text COLLATE "C" NOT NULL,
	queue   text COLLATE "C" NOT NULL,
	turns   bigint NOT NULL DEFAULT 0, -- how often it got one of the units that do not divide evenly
	turn_at timestamptz, -- when it last got one
	PRIMARY KEY (tenant, queue, server)
);

-- Token buckets of rate limits. full_us is when, in microseconds since 1970, the
-- bucket is full again. It changes with each draw, so no index may name it.
CREATE TABLE buckets (
	full_us bigint NOT NULL,
	bucket  text COLLATE "C" PRIMARY KEY,
	step_us bigint, -- the rate it fills by, to convert its level when the rate changes; NULL: unknown
	burst   bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- How many active jobs a tenant with a job quota has: as last counted, plus what
-- was created since. Creating a job locks its tenant's row.
CREATE TABLE job_counts (
	active     bigint NOT NULL,
	counted_at timestamptz NOT NULL,
	tenant     text COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- ── History ─────────────────────────────────────────────────────────────────

-- Executions that have finished: written once, never changed. There is one table
-- for each day (UTC) of finishing, so that a day is archived and dropped as a
-- whole.
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
	tally        boolean NOT NULL DEFAULT true, -- false: it has its job's id and is not in job_stats
	id           uuid NOT NULL,
	job          uuid NOT NULL,
	worker       uuid,
	retry_of     uuid,
	tenant       text COLLATE "C" NOT NULL,
	payload      bytea,
	result       bytea,
	ending       bytea,
	leased_at    timestamptz -- of the last attempt; NULL: the same as started_at
) PARTITION BY RANGE (finished_at);
CREATE INDEX executions_id ON executions (id);
CREATE INDEX executions_job ON executions (job, scheduled_at, id) WHERE tally;
CREATE INDEX executions_unwell ON executions (finished_at, id) WHERE status > 10 AND status <> 13; -- neither succeeded nor cancelled
-- For lists: a tenant's executions, and those that did not succeed, which are few
-- and often looked for. The first condition is true for every row: only lists
-- name it, so only lists use the index; see plans.go.
CREATE INDEX executions_tenant ON executions (tenant, scheduled_at, id) WHERE status > 0;
CREATE INDEX executions_ill ON executions (tenant, scheduled_at, id, status) WHERE status > 10;

-- Creates the table of a day; false: it exists. Servers may run with a role that
-- owns no table, so this runs with the rights of the owner.
CREATE FUNCTION carillon_make_day(day date) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	name text := 'executions_' || to_char(day, 'YYYYMMDD');
BEGIN
	IF day NOT BETWEEN '1970-01-01' AND '9999-12-30' THEN
		RAISE EXCEPTION 'no table for the day %: want one from 1970 to 9999', day;
	END IF;
	PERFORM pg_advisory_xact_lock(1130459748, hashtext(current_schema()));
	IF to_regclass(quote_ident(current_schema()) || '.' || name) IS NOT NULL THEN
		RETURN false;
	END IF;
	EXECUTE format('CREATE TABLE %I (LIKE executions INCLUDING ALL)', name);
	-- Unlike creating it as a partition, attaching it does not wait for statements that read or write executions.
	EXECUTE format('ALTER TABLE executions ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, day || ' 00:00:00+00', day + 1 || ' 00:00:00+00');
	RETURN true;
END $$;
DO $$ BEGIN EXECUTE format('ALTER FUNCTION carillon_make_day(date) SET search_path = %I, pg_temp', current_schema()); END $$;
REVOKE ALL ON FUNCTION carillon_make_day(date) FROM PUBLIC;

-- Drops the table of a past day from which all rows were deleted; false: it has
-- some, or there is none. Statements about executions wait for it at most as
-- long as it waits for them. It runs with the rights of the owner, too.
CREATE FUNCTION carillon_drop_day(day date) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	name text := 'executions_' || to_char(day, 'YYYYMMDD');
	filled boolean;
BEGIN
	IF day >= (now() AT TIME ZONE 'UTC')::date - 1 OR to_regclass(quote_ident(current_schema()) || '.' || name) IS NULL THEN
		RETURN false;
	END IF;
	-- Not before vacuum has cut the table off: looking for a row among many dead ones takes seconds, under a lock that
	-- keeps everybody from history.
	IF pg_relation_size(to_regclass(quote_ident(current_schema()) || '.' || name)) > 0 THEN
		RETURN false;
	END IF;
	LOCK TABLE ONLY executions IN ACCESS EXCLUSIVE MODE;
	EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
	EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', name) INTO filled;
	IF NOT filled THEN
		EXECUTE format('DROP TABLE %I', name);
	END IF;
	RETURN NOT filled;
END $$;
DO $$ BEGIN EXECUTE format('ALTER FUNCTION carillon_drop_day(date) SET search_path = %I, pg_temp', current_schema()); END $$;
ALTER FUNCTION carillon_drop_day(date) SET lock_timeout = '50ms';
REVOKE ALL ON FUNCTION carillon_drop_day(date) FROM PUBLIC;

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

-- What happened to executions beyond what their rows and attempts show.
CREATE TABLE events (
	at        timestamptz NOT NULL,
	token     bigint NOT NULL, -- 0: without a lease; of a rerun: derived from the new execution, so that two differ
	attempt   int NOT NULL DEFAULT 0,
	execution uuid NOT NULL,
	worker    uuid,
	tenant    text COLLATE "C" NOT NULL,
	kind      text COLLATE "C" NOT NULL,
	note      text NOT NULL DEFAULT '',
	PRIMARY KEY (execution, kind, token)
);

-- Executions that failed for good, until someone reruns or discards them.
CREATE TABLE dead_letters (
	at         timestamptz NOT NULL, -- when the execution finished
	execution  uuid NOT NULL,
	job        uuid NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	reason     text NOT NULL,
	message    text, -- a copy of the last error's, for search
	redrive_at timestamptz -- when it is rerun automatically
);
CREATE INDEX dead_letters_at ON dead_letters (tenant, at, execution);
CREATE INDEX dead_letters_job ON dead_letters (tenant, job, at, execution);
CREATE INDEX dead_letters_redrive ON dead_letters (redrive_at) WHERE redrive_at IS NOT NULL;
CREATE INDEX dead_letters_reason ON dead_letters (tenant, reason, at, execution);
ALTER TABLE dead_letters ADD PRIMARY KEY (execution);

-- Output of attempts, in compressed chunks of lines. Each chunk of an attempt
-- begins where the one before it ends, so that a chunk sent twice is stored once.
CREATE TABLE logs (
	token     bigint NOT NULL, -- of the attempt's lease
	bytes     bigint NOT NULL, -- length of the attempt's log up to the end of this chunk
	first     int NOT NULL, -- number of its first line
	upto      int NOT NULL, -- number of its last line, plus 1
	attempt   int NOT NULL,
	cut       boolean NOT NULL, -- the log reached its limit here
	execution uuid NOT NULL,
	tenant    text COLLATE "C" NOT NULL,
	data      bytea NOT NULL,
	PRIMARY KEY (execution, token, first)
);
ALTER TABLE logs ALTER COLUMN data SET STORAGE EXTERNAL; -- it is compressed already

-- Files to which days of finished executions were moved. A file answers for its
-- executions in the states 2 and 3; before, the store does.
CREATE TABLE archive_files (
	day        timestamptz NOT NULL,
	rows       bigint NOT NULL,
	bytes      bigint NOT NULL,
	check_sum  bigint NOT NULL, -- the sum of engine.Finished.Check of all rows, modulo 2^32
	read_at    timestamptz NOT NULL,
	written_at timestamptz NOT NULL,
	part       int NOT NULL,
	kind       smallint NOT NULL, -- 1: executions, 2: logs
	state      smallint NOT NULL, -- 0: begun, 1: proved, 2: answers, 3: settled, 4: retired
	hash       bytea NOT NULL, -- SHA-256
	name       text COLLATE "C" PRIMARY KEY
);
CREATE INDEX archive_files_day ON archive_files (day, kind);

-- What files have of each tenant.
CREATE TABLE archive_shares (
	last_at    timestamptz NOT NULL, -- the greatest scheduled time
	first_at   timestamptz NOT NULL,
	made_from  timestamptz NOT NULL, -- the least instant of the executions' ids
	made_until timestamptz NOT NULL,
	rows       bigint NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, name)
);
CREATE INDEX archive_shares_name ON archive_shares (name);

-- Whose turn it is to move history: one row.
CREATE TABLE archive_turn (
	one    boolean PRIMARY KEY DEFAULT true CHECK (one),
	until  timestamptz,
	epoch  bigint NOT NULL,
	holder uuid,
	note   bytea NOT NULL
);
INSERT INTO archive_turn (epoch, note) VALUES (0, '');

-- Compares the executions of a day that may move with what was written of them,
-- and drops them if they are the same; false: they are not. adds is a sum modulo
-- 2^32. What may not move stays. Readers wait only while the table is emptied. It
-- runs with the rights of the owner, as carillon_make_day does.
CREATE FUNCTION carillon_leave_day(day date, n bigint, adds bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	name text := 'executions_' || to_char(day, 'YYYYMMDD');
	stays text := 'EXISTS (SELECT 1 FROM dead_letters d WHERE d.execution = v.id) OR EXISTS (SELECT 1 FROM runs r WHERE r.execution = v.id)'
		|| ' OR EXISTS (SELECT 1 FROM run_attempts r WHERE r.execution = v.id) OR EXISTS (SELECT 1 FROM run_members m WHERE m.execution = v.id)'
		|| ' OR EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = v.tenant AND k.job = v.job)';
	check_of text := '(extract(epoch FROM v.finished_at) * 1000000)::int8 % 86400000000 + (v.token & 4294967295)';
	has bigint;
	sums numeric;
BEGIN
	IF to_regclass(quote_ident(current_schema()) || '.' || name) IS NULL THEN
		RETURN n = 0;
	END IF;
	EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', name);
	-- One snapshot decides what stays: a dead letter can be discarded at any moment.
	EXECUTE format('CREATE TEMP TABLE carillon_staying ON COMMIT DROP AS SELECT * FROM %I v WHERE %s', name, stays);
	EXECUTE format('SELECT sum(x.n), sum(x.adds) FROM (SELECT count(*) AS n, coalesce(sum(%1$s), 0) AS adds FROM %2$I v'
		|| ' UNION ALL SELECT -count(*), -coalesce(sum(%1$s), 0) FROM carillon_staying v) x', check_of, name) INTO has, sums;
	IF has <> n OR mod(sums - adds, 4294967296) <> 0 THEN
		RETURN false;
	END IF;
	EXECUTE format('TRUNCATE %I', name);
	EXECUTE format('INSERT INTO %I SELECT * FROM carillon_staying', name);
	RETURN true;
END $$;
DO $$ BEGIN EXECUTE format('ALTER FUNCTION carillon_leave_day(date, bigint, bigint) SET search_path = %I, pg_temp', current_schema()); END $$;
REVOKE ALL ON FUNCTION carillon_leave_day(date, bigint, bigint) FROM PUBLIC;

-- The trace of the request that created a job or an execution; kept for a week.
CREATE TABLE traces (
	at     timestamptz NOT NULL,
	of     uuid PRIMARY KEY, -- the id of a job or an execution
	tenant text COLLATE "C" NOT NULL,
	parent text COLLATE "C" NOT NULL -- a traceparent
);
CREATE INDEX traces_at ON traces (at);

-- ── Workflow runs ───────────────────────────────────────────────────────────

-- A run is the execution of a job whose target is a workflow; its id is that of
-- the first attempt's execution. state holds where every node stands, as package
-- workflow writes it. Every change locks the row and adds 1 to seq.
CREATE TABLE runs (
	begun_at     timestamptz NOT NULL,
	ended_at     timestamptz,
	scheduled_at timestamptz NOT NULL,
	seq          bigint NOT NULL,
	token        bigint NOT NULL, -- under which its execution is held
	id           uuid PRIMARY KEY,
	execution    uuid NOT NULL, -- of its current attempt
	workflow     uuid NOT NULL,
	version      int NOT NULL,
	attempt      int NOT NULL,
	status       smallint NOT NULL,
	tenant       text COLLATE "C" NOT NULL,
	state        bytea NOT NULL,
	input        bytea,
	output       bytea,
	ending       bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX runs_execution ON runs (execution);
CREATE INDEX runs_tenant ON runs (tenant, scheduled_at, id);
CREATE INDEX runs_workflow ON runs (tenant, workflow, scheduled_at, id);
CREATE INDEX runs_ended ON runs (tenant, ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_open ON runs (begun_at) WHERE ended_at IS NULL;

-- Earlier attempts of runs that were retried.
CREATE TABLE run_attempts (
	execution uuid PRIMARY KEY,
	run       uuid NOT NULL,
	tenant    text COLLATE "C" NOT NULL
);
CREATE INDEX run_attempts_run ON run_attempts (run);

-- The executions of nodes. place is the node's number times 2^24, plus the number
-- of the map's item, counted from 1; 0: the node is no map. status is 0 until the
-- run knows how the execution ended.
CREATE TABLE run_members (
	created_at  timestamptz NOT NULL,
	started_at  timestamptz,
	finished_at timestamptz,
	place       bigint NOT NULL,
	execution   uuid PRIMARY KEY,
	run         uuid NOT NULL,
	attempt     int NOT NULL, -- of the run
	status      smallint NOT NULL DEFAULT 0,
	tenant      text COLLATE "C" NOT NULL,
	target      bytea -- what it runs, where templates changed the job's
) WITH (fillfactor = 50); -- each row changes once, all of a map at about the same time, and should stay on its page then
CREATE UNIQUE INDEX run_members_run ON run_members (run, place, attempt); -- a node starts once in each attempt of its run

-- Ends of members that their runs do not know of yet, written in the commit that
-- ended them. The place -1 says that the run itself is to be cancelled.
CREATE TABLE run_marks (
	started_at  timestamptz,
	finished_at timestamptz NOT NULL,
	place       bigint NOT NULL,
	execution   uuid NOT NULL,
	run         uuid NOT NULL,
	status      smallint NOT NULL,
	tenant      text COLLATE "C" NOT NULL,
	result      bytea,
	ending      bytea,
	PRIMARY KEY (execution, place)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX run_marks_run ON run_marks (run, finished_at);
CREATE INDEX run_marks_age ON run_marks (finished_at);
CREATE INDEX run_marks_asked ON run_marks (run) WHERE place < 0; -- of what is asked of runs themselves, to find it at once

-- Results and errors of nodes, where another node reads them.
CREATE TABLE run_results (
	place  bigint NOT NULL,
	run    uuid NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	result bytea,
	ending bytea,
	PRIMARY KEY (run, place)
);

-- When maps and waits began and ended: they have no execution of their own that
-- says so.
CREATE TABLE run_spans (
	started_at  timestamptz NOT NULL,
	finished_at timestamptz,
	place       bigint NOT NULL,
	run         uuid NOT NULL,
	tenant      text COLLATE "C" NOT NULL,
	PRIMARY KEY (run, place)
);

-- What runs wait for: timers, approvals, events, deadlines of nodes and, as node
-- -1, of the run.
CREATE TABLE run_waits (
	begun_at timestamptz NOT NULL,
	wake_at  timestamptz, -- when somebody must look at it
	until_at timestamptz, -- when it has taken too long
	run      uuid NOT NULL,
	node     int NOT NULL,
	kind     smallint NOT NULL,
	tenant   text COLLATE "C" NOT NULL,
	event    text COLLATE "C" NOT NULL,
	digest   bytea NOT NULL, -- of match, for the index; empty: any event matches
	match    bytea,
	votes    bytea,
	asks     bytea, -- of an approval: who may decide, for lists
	schema   bytea, -- of an approval: of what a vote says
	voters   bytea, -- of an approval: who has voted, for lists
	PRIMARY KEY (run, node, kind)
);
CREATE INDEX run_waits_wake ON run_waits (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX run_waits_event ON run_waits (tenant, event, digest, run) WHERE kind = 3;
CREATE INDEX run_waits_approval ON run_waits (tenant, begun_at, run) WHERE kind = 2;

-- Events of the last day, for waits that begin after them.
CREATE TABLE run_events (
	at      timestamptz NOT NULL,
	id      uuid PRIMARY KEY,
	tenant  text COLLATE "C" NOT NULL,
	event   text COLLATE "C" NOT NULL,
	digest  bytea NOT NULL, -- of match, for the index
	match   bytea,
	payload bytea,
	woken   uuid -- the last run whose waits it has woken; NULL: all have been
);
CREATE INDEX run_events_event ON run_events (tenant, event, at);
CREATE INDEX run_events_match ON run_events (tenant, event, digest, at);
CREATE INDEX run_events_at ON run_events (at);
CREATE INDEX run_events_woken ON run_events (at) WHERE woken IS NOT NULL;

-- ── Statistics ──────────────────────────────────────────────────────────────

-- Totals of a job's finished executions, and how many took how long (job.Bucket),
-- updated as they finish. The execution that a one-off job was created with is
-- left out (live.tally): finishing it writes no row here.
CREATE TABLE job_stats (
	total            bigint NOT NULL,
	succeeded        bigint NOT NULL,
	timed            bigint NOT NULL, -- those that started
	sum_us           numeric NOT NULL, -- their total duration
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

-- What each server counted in each minute, for the last two days.
CREATE TABLE minutes (
	at           timestamptz NOT NULL,
	started      bigint NOT NULL,
	completed    bigint NOT NULL,
	failed       bigint NOT NULL,
	again        bigint NOT NULL,
	waited       bigint NOT NULL,
	wait_us      bigint NOT NULL,
	max_wait_us  bigint NOT NULL,
	fired        bigint NOT NULL,
	delay_us     bigint NOT NULL,
	max_delay_us bigint NOT NULL,
	server       uuid NOT NULL,
	PRIMARY KEY (at, server)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- The same by tenant. In this and the next tables tenant '' means all tenants
-- together, and counts, queues and days are package engine's stored forms.
CREATE TABLE tenant_minutes (
	at     timestamptz NOT NULL,
	server uuid NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	counts bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX tenant_minutes_age ON tenant_minutes (at);
ALTER TABLE tenant_minutes ADD PRIMARY KEY (tenant, at, server);

-- How many executions waited and ran. Tenant '' has a row for every minute that
-- was looked at.
CREATE TABLE depths (
	at     timestamptz NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	queues bytea NOT NULL
);
CREATE INDEX depths_age ON depths (at);
ALTER TABLE depths ADD PRIMARY KEY (tenant, at);

-- Results of a job's executions by day. month is year * 12 + month - 1.
CREATE TABLE job_months (
	job    uuid NOT NULL,
	month  int NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	days   bytea NOT NULL
) WITH (fillfactor = 70);
ALTER TABLE job_months ALTER COLUMN days SET STORAGE PLAIN;
CREATE INDEX job_months_age ON job_months (month);
ALTER TABLE job_months ADD PRIMARY KEY (tenant, job, month);

-- Errors by hour, job and fingerprint.
CREATE TABLE failures (
	hour        timestamptz NOT NULL,
	first_at    timestamptz NOT NULL,
	last_at     timestamptz NOT NULL,
	failed      bigint NOT NULL,
	retried     bigint NOT NULL,
	job         uuid NOT NULL,
	execution   uuid NOT NULL, -- the last one
	tenant      text COLLATE "C" NOT NULL,
	fingerprint bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX failures_job ON failures (tenant, job, hour);
CREATE INDEX failures_age ON failures (hour);
ALTER TABLE failures ADD PRIMARY KEY (tenant, hour, fingerprint, job);

-- The errors that fingerprints stand for.
CREATE TABLE fingerprints (
	seen_at     timestamptz NOT NULL, -- approximate
	tenant      text COLLATE "C" NOT NULL,
	fingerprint bytea NOT NULL,
	type        text NOT NULL,
	message     text NOT NULL,
	sample      text NOT NULL,
	PRIMARY KEY (tenant, fingerprint)
);
CREATE INDEX fingerprints_age ON fingerprints (seen_at);

-- The number of each server's last batch of counts, so that none is added twice.
CREATE TABLE tally_marks (
	server uuid PRIMARY KEY,
	number bigint NOT NULL,
	at     timestamptz NOT NULL
) WITH (fillfactor = 50);

-- ── Notifications ───────────────────────────────────────────────────────────

-- Rules for what tenants are notified of.
CREATE TABLE notification_rules (
	created_at timestamptz NOT NULL,
	updated_at timestamptz NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	spec       bytea NOT NULL,
	PRIMARY KEY (tenant, name)
);

-- Conditions of jobs that a rule has reported and that still hold.
CREATE TABLE alarms (
	since     timestamptz NOT NULL,
	job       uuid NOT NULL,
	execution uuid,
	tenant    text COLLATE "C" NOT NULL,
	rule      text COLLATE "C" NOT NULL,
	event     text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, rule, job, event)
);

-- How far the search for events has come: one row.
CREATE TABLE watched (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	at  timestamptz NOT NULL
);

-- ── Secrets and signing ─────────────────────────────────────────────────────

-- Secrets that jobs refer to, encrypted before they come here.
CREATE TABLE secrets (
	created_at timestamptz NOT NULL,
	updated_at timestamptz NOT NULL,
	expires_at timestamptz, -- set when its job is deleted
	version    int NOT NULL,
	job        uuid, -- the job that manages it; NULL: a person created it
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	key_id     text NOT NULL, -- the key it is encrypted with
	sealed     bytea NOT NULL,
	PRIMARY KEY (tenant, name),
	FOREIGN KEY (tenant, job) REFERENCES jobs (tenant, id) ON DELETE CASCADE
);
CREATE INDEX secrets_job ON secrets (tenant, job) WHERE job IS NOT NULL;
CREATE INDEX secrets_expired ON secrets (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX secrets_named ON secrets (tenant, name) WHERE job IS NULL; -- the few that people created, to list and count them
CREATE INDEX secrets_key ON secrets (key_id); -- which keys are in use

-- Values of secrets before they were changed or deleted, so that output of
-- attempts that still know them can be redacted.
CREATE TABLE past_secrets (
	dropped_at timestamptz NOT NULL,
	job        uuid, -- the job that managed it; NULL: a person created it
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	key_id     text NOT NULL,
	sealed     bytea NOT NULL
);
CREATE INDEX past_secrets_whose ON past_secrets (tenant, job, dropped_at);
CREATE INDEX past_secrets_age ON past_secrets (dropped_at);

-- Keeps the old value, and only the newest: 20 for each job; 20 for each name
-- that a person created, and of these 1000 and 1 MiB for each tenant. Rows that
-- another transaction is dropping are left to it.
CREATE FUNCTION past_secret() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at) VALUES (OLD.tenant, OLD.name, OLD.job, OLD.key_id, OLD.sealed, clock_timestamp());
	IF OLD.job IS NOT NULL THEN
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM past_secrets WHERE tenant = OLD.tenant AND job = OLD.job ORDER BY dropped_at DESC OFFSET 20
			)) FOR UPDATE SKIP LOCKED));
	ELSE
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM past_secrets WHERE tenant = OLD.tenant AND job IS NULL AND name = OLD.name ORDER BY dropped_at DESC OFFSET 20
			)) FOR UPDATE SKIP LOCKED));
		DELETE FROM past_secrets WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM past_secrets WHERE ctid = ANY (ARRAY(
				SELECT x.id FROM (
					SELECT ctid AS id, row_number() OVER newest AS n, sum(octet_length(sealed)) OVER newest AS bytes
					FROM past_secrets WHERE tenant = OLD.tenant AND job IS NULL
					WINDOW newest AS (ORDER BY dropped_at DESC ROWS UNBOUNDED PRECEDING)
				) x WHERE x.n > 1000 OR x.bytes > 1048576
			)) FOR UPDATE SKIP LOCKED));
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER past_secret_changed AFTER UPDATE OF version ON secrets FOR EACH ROW WHEN (NEW.version <> OLD.version) EXECUTE FUNCTION past_secret();
CREATE TRIGGER past_secret_dropped AFTER DELETE ON secrets FOR EACH ROW WHEN (OLD.expires_at IS NULL) EXECUTE FUNCTION past_secret();

-- Secrets that callbacks are signed with, encrypted. A tenant's newest has no
-- expiry.
CREATE TABLE signing_secrets (
	created_at timestamptz NOT NULL,
	expires_at timestamptz,
	tenant     text COLLATE "C" NOT NULL,
	id         text COLLATE "C" NOT NULL,
	prefix     text NOT NULL, -- the start of the secret, to recognise it
	sealed     bytea NOT NULL,
	PRIMARY KEY (tenant, id)
);

-- ── Blobs ───────────────────────────────────────────────────────────────────

-- Objects such as artifacts, where the store itself holds them: see package
-- blob. An object is written chunk by chunk, appears under its name in one
-- commit, and is taken out of sight before its chunks are deleted.
CREATE TABLE blobs (
	id     uuid NOT NULL,
	at     timestamptz NOT NULL, -- when writing began
	size   bigint NOT NULL,
	state  smallint NOT NULL, -- 0: being written, 1: whole, 2: being deleted
	tenant text COLLATE "C" NOT NULL, -- '': of the installation
	name   text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX blobs_name ON blobs (name) WHERE state = 1;
CREATE INDEX blobs_left ON blobs (at) WHERE state <> 1;
ALTER TABLE blobs ADD PRIMARY KEY (id);

CREATE TABLE blob_chunks (
	blob   uuid NOT NULL,
	n      int NOT NULL, -- all chunks but the last have the same size
	sum    bigint NOT NULL, -- CRC-32C
	tenant text COLLATE "C" NOT NULL,
	data   bytea NOT NULL,
	PRIMARY KEY (blob, n)
);
ALTER TABLE blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL; -- what it holds is compressed already

-- ── Audit log ───────────────────────────────────────────────────────────────

-- Every change that someone requested: written with the change, never updated.
CREATE TABLE audit (
	seq     bigint GENERATED BY DEFAULT AS IDENTITY,
	at      timestamptz NOT NULL,
	count   int NOT NULL, -- how many objects a batch changed; object is the first
	tenant  text COLLATE "C" NOT NULL,
	by_whom text NOT NULL,
	role    text NOT NULL,
	key_id  text NOT NULL, -- '': none
	origin  text NOT NULL, -- the caller's address
	request text NOT NULL, -- the request's id
	action  text COLLATE "C" NOT NULL,
	object  text NOT NULL,
	detail  bytea, -- before and after
	PRIMARY KEY (tenant, seq)
);
CREATE INDEX audit_order ON audit (seq);
ALTER TABLE audit ALTER COLUMN detail SET STORAGE EXTERNAL; -- long only for batches, and ids hardly compress

-- Seals over ranges of entries, in chains: see package audit.
CREATE TABLE audit_seals (
	number    bigint NOT NULL,
	sealed_at timestamptz NOT NULL,
	first     bigint NOT NULL,
	last      bigint NOT NULL,
	tenant    text COLLATE "C" NOT NULL,
	prev      bytea NOT NULL,
	hash      bytea NOT NULL,
	marks     bytea NOT NULL,
	PRIMARY KEY (tenant, number)
);
CREATE INDEX audit_seals_age ON audit_seals (sealed_at);

-- The last entry that is sealed: one row, locked while sealing.
CREATE TABLE audit_sealed (
	one  boolean PRIMARY KEY DEFAULT true CHECK (one),
	upto bigint NOT NULL
);
INSERT INTO audit_sealed (upto) VALUES (0);

-- ── Other settings ──────────────────────────────────────────────────────────

-- Bulk operations, such as rerunning all dead letters of a queue.
CREATE TABLE operations (
	created_at  timestamptz NOT NULL,
	updated_at  timestamptz NOT NULL,
	finished_at timestamptz,
	taken_until timestamptz, -- a server is working on it
	total       bigint NOT NULL,
	done        bigint NOT NULL,
	passed      bigint NOT NULL,
	rate        double precision NOT NULL,
	version     int NOT NULL,
	id          uuid NOT NULL,
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
ALTER TABLE operations ADD PRIMARY KEY (id);

-- What is not purged, whatever its retention.
CREATE TABLE holds (
	at      timestamptz NOT NULL,
	job     uuid, -- NULL: the whole tenant
	id      text COLLATE "C" NOT NULL,
	tenant  text COLLATE "C" NOT NULL,
	reason  text NOT NULL,
	by_whom text NOT NULL
);
CREATE INDEX holds_job ON holds (tenant, job);
ALTER TABLE holds ADD PRIMARY KEY (tenant, id);

-- Public status badges of jobs. hash is the hash of the token in the address.
CREATE TABLE badges (
	created_at timestamptz NOT NULL,
	job        uuid NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	id         text COLLATE "C" NOT NULL,
	label      text NOT NULL, -- '': the job's name
	hash       bytea NOT NULL,
	PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX badges_hash ON badges (hash);

-- Versions of the definitions of workflows; a row never changes. A workflow is a
-- job, whose target names its current version. jobs has 16 bytes for each node:
-- the job that it runs, or zeros.
CREATE TABLE workflow_versions (
	created_at timestamptz NOT NULL,
	workflow   uuid NOT NULL,
	version    int NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	by_whom    text NOT NULL,
	definition bytea NOT NULL, -- JSON
	jobs       bytea NOT NULL,
	layout     bytea NOT NULL DEFAULT '', -- how the graph is drawn; empty: not known
	PRIMARY KEY (tenant, workflow, version)
);

-- Which jobs, and other workflows, the current versions of workflows use.
CREATE TABLE workflow_uses (
	job      uuid NOT NULL,
	workflow uuid NOT NULL,
	tenant   text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, job, workflow)
);

-- The jobs that have a retention of their own, which their definitions name, too.
CREATE TABLE job_retentions (
	cut_at      timestamptz, -- when it was last shortened after its job was created; NULL: never
	job         uuid NOT NULL,
	days        int NOT NULL,
	failed_days int NOT NULL,
	tenant      text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, job)
);

-- Which jobs other jobs depend on. token is the newest execution of the parent
-- that counts and that the child has not fired by.
CREATE TABLE job_edges (
	token_at timestamptz, -- when it ended
	child    uuid NOT NULL,
	parent   uuid NOT NULL,
	token    uuid, -- NULL: there is none
	tenant   text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, child, parent)
);
CREATE INDEX job_edges_parent ON job_edges (parent); -- after the key, which statements that look for parents must not use

-- Ends of executions that a dependent job does not know of yet, written in the
-- commit that ended them. A mark whose execution is the child itself asks to look
-- at the child again: it was changed or resumed.
CREATE TABLE edge_marks (
	at        timestamptz NOT NULL,
	child     uuid NOT NULL,
	execution uuid NOT NULL,
	parent    uuid NOT NULL,
	status    smallint NOT NULL,
	tenant    text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX edge_marks_child ON edge_marks (child, at, execution);
CREATE INDEX edge_marks_age ON edge_marks (at);
ALTER TABLE edge_marks ADD PRIMARY KEY (child, execution);
