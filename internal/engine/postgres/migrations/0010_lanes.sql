-- Executions that have not finished, anew: a number stands for their partition,
-- tenant and class, so that the index of lanes holds nothing of varying length.
-- It is the partition times 2^56 and 56 bits of a hash (see engine.LaneNumber). Should two classes have
-- the same number in a partition, the lanes of the one that comes later are listed when those of the other are empty.
-- The rest is as in 0002: what indexes name comes first, none of it may be NULL, and what a
-- lease changes stands together and is named by no index.
CREATE TABLE live2 (
	lane          bigint NOT NULL,
	group_key     bigint NOT NULL DEFAULT 0,
	due_at        timestamptz NOT NULL,
	scheduled_at  timestamptz NOT NULL,
	nonce         bigint NOT NULL,
	id            uuid NOT NULL,
	job           uuid NOT NULL,
	priority      smallint NOT NULL,
	part          smallint NOT NULL,
	trigger       smallint NOT NULL,
	hold          smallint NOT NULL DEFAULT 0,
	tally         boolean NOT NULL DEFAULT true, -- counted in job_stats at its end
	tries         int NOT NULL DEFAULT 0, -- failures that used up a retry
	lost          int NOT NULL DEFAULT 0, -- leases that ended without a result
	max_attempts  int NOT NULL,
	timeout_ms    bigint NOT NULL DEFAULT 0, -- of an attempt; 0: nobody looks
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
	progress      bytea,
	parked_until  timestamptz -- its target has taken it over, and has so long to complete it
) WITH (
	fillfactor = 45,
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 1,
	autovacuum_vacuum_cost_limit = 2000
);
INSERT INTO live2 (lane, group_key, due_at, scheduled_at, nonce, id, job, priority, part, trigger, hold, tally, tries, lost, max_attempts, timeout_ms, tenant, class,
	lease, leased_at, started_at, attempt, worker, retry_of, cancel_at, expires_at, stall_ms, rate_us, group_max, rate_count, rate_burst, unique_key,
	payload, cancel_ending, progress_at, progress, parked_until)
SELECT part::bigint << 56 | ('x' || encode(substr(sha256(convert_to(tenant || E'\x1f' || class, 'UTF8')), 1, 7), 'hex'))::bit(56)::bigint,
	group_key, due_at, scheduled_at, nonce, id, job, priority, part, trigger, hold, tally, tries, lost, max_attempts, timeout_ms, tenant, class,
	lease, leased_at, started_at, attempt, worker, retry_of, cancel_at, expires_at, stall_ms, rate_us, group_max, rate_count, rate_burst, unique_key,
	payload, cancel_ending, progress_at, progress, parked_until FROM live;
DROP TABLE live;
ALTER TABLE live2 RENAME TO live;
ALTER TABLE live ADD CONSTRAINT live_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX live_fire ON live (job, scheduled_at, nonce) WHERE tally;
CREATE INDEX live_lane ON live (lane, group_key, priority, due_at, id) WHERE lane >= 0; -- always so; see plans.go
CREATE UNIQUE INDEX live_unique ON live (tenant, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX live_expires ON live (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX live_parked ON live (parked_until) WHERE parked_until IS NOT NULL;
