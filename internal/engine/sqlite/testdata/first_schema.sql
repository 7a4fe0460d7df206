-- The schema, by subject:
--
--   tenants and keys · jobs and schedules · live work · sessions and leases ·
--   limits · history · workflow runs · statistics · notifications · secrets and signing ·
--   audit log · other settings
--
-- Numbers for statuses, states, kinds and triggers are those of package job.
-- Columns named spec, target, ending and the like hold package engine's stored
-- forms; SQL never looks inside them. Ids are 16 bytes; instants are
-- microseconds since 1970, UTC.
--
-- Columns that may be long, such as payload, come last: what lies behind them is
-- slow to read.

-- ── Tenants and keys ────────────────────────────────────────────────────────

CREATE TABLE tenants (
	id             TEXT NOT NULL PRIMARY KEY,
	created_at     INTEGER NOT NULL,
	name           TEXT NOT NULL DEFAULT '',
	tier           TEXT NOT NULL DEFAULT 'free',
	quotas         TEXT NOT NULL DEFAULT '', -- JSON: what an operator set in place of the tier's quotas; '': nothing
	history_cut_at INTEGER, -- when the history quota last became shorter; what no longer fits is dropped a week later
	reach          TEXT NOT NULL DEFAULT '', -- private address ranges that callbacks may call, separated by commas
	https_only     INTEGER NOT NULL DEFAULT 0 -- callbacks must use https
) WITHOUT ROWID, STRICT;
CREATE INDEX tenants_reach ON tenants (id) WHERE reach <> '' OR https_only; -- the few tenants with rules of their own
INSERT INTO tenants (id, created_at, name, tier) VALUES ('default', unixepoch() * 1000000, 'default', 'enterprise');

CREATE TABLE api_keys (
	id         TEXT NOT NULL PRIMARY KEY,
	tenant     TEXT NOT NULL,
	role       TEXT NOT NULL,
	name       TEXT NOT NULL,
	hash       BLOB NOT NULL UNIQUE,
	created_at INTEGER NOT NULL,
	expires_at INTEGER,
	revoked_at INTEGER,
	used_at    INTEGER -- accurate to about a minute
) WITHOUT ROWID, STRICT;
CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at, id);

-- Browsers that are signed in. hash is the hash of the cookie.
CREATE TABLE sign_ins (
	hash       BLOB NOT NULL PRIMARY KEY,
	id         TEXT NOT NULL,
	tenant     TEXT NOT NULL, -- '': every tenant, with a worker's key
	role       TEXT NOT NULL,
	name       TEXT NOT NULL,
	key_id     TEXT NOT NULL, -- the API key that was used; '': a token
	created_at INTEGER NOT NULL,
	used_at    INTEGER NOT NULL, -- accurate to about a minute
	ends_at    INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX sign_ins_whose ON sign_ins (tenant, key_id, name, created_at);
CREATE INDEX sign_ins_end ON sign_ins (ends_at);

-- ── Jobs and schedules ──────────────────────────────────────────────────────

-- What to run, when, and what happens when it fails. A one-off job that is over
-- keeps the state ACTIVE: that it is COMPLETED follows from schedules and live,
-- so that finishing an execution writes no row here.
CREATE TABLE jobs (
	tenant       TEXT NOT NULL,
	id           BLOB NOT NULL,
	state        INTEGER NOT NULL,
	kind         INTEGER NOT NULL, -- the type of its schedule
	priority     INTEGER NOT NULL,
	revision     INTEGER NOT NULL,
	created_at   INTEGER NOT NULL,
	updated_at   INTEGER NOT NULL,
	paused_until INTEGER, -- when a pause ends by itself
	pause_note   TEXT,
	key          TEXT,
	name         TEXT NOT NULL,
	description  TEXT, -- a copy of the spec's, for search
	tags         TEXT, -- a JSON array
	spec         BLOB NOT NULL,
	target       BLOB NOT NULL,
	payload      BLOB,
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX jobs_key ON jobs (tenant, key) WHERE key IS NOT NULL AND state <> 4; -- deleting a job frees its key
CREATE INDEX jobs_paused ON jobs (paused_until) WHERE paused_until IS NOT NULL AND state = 2;
CREATE INDEX jobs_planned ON jobs (tenant, id) WHERE kind <> 1 AND state < 4; -- counts jobs that may have a plan; IMMEDIATE ones (1) never do, nor those of nodes of workflows (state 5)
-- For lists by name, of paused or deleted jobs, and by type. The many IMMEDIATE
-- jobs are left out of the last: few people ask for them. So are jobs of nodes.
CREATE INDEX jobs_name ON jobs (tenant, name, id);
CREATE INDEX jobs_aside ON jobs (tenant, state, id) WHERE state IN (2, 4);
CREATE INDEX jobs_workflows ON jobs (tenant, id) WHERE substr(target, 1, 15) = x'7b226b223a22776f726b666c6f7722'; -- engine.WorkflowMark
CREATE INDEX jobs_kind ON jobs (tenant, kind, id) WHERE kind <> 1 AND state <> 5;

-- The part of a job that changes each time it fires, so that firing does not
-- rewrite the long row of the job. Only jobs that recur, or that fire once in
-- the future, have a row. revision and active are copies of the job's: firing
-- reads this row alone.
CREATE TABLE schedules (
	job         BLOB NOT NULL PRIMARY KEY,
	tenant      TEXT NOT NULL,
	next_run_at INTEGER,
	runs        INTEGER NOT NULL, -- how often it has fired, staged executions included
	revision    INTEGER NOT NULL,
	active      INTEGER NOT NULL -- a paused job keeps next_run_at, but is not in the index
) WITHOUT ROWID, STRICT;
CREATE INDEX schedules_due ON schedules (next_run_at) WHERE active = 1 AND next_run_at IS NOT NULL;

-- Past revisions of jobs, and who replaced them.
CREATE TABLE job_revisions (
	tenant       TEXT NOT NULL,
	job          BLOB NOT NULL,
	revision     INTEGER NOT NULL,
	replaced_at  INTEGER NOT NULL,
	updated_at   INTEGER NOT NULL, -- when this revision was made
	paused_until INTEGER,
	state        INTEGER NOT NULL,
	kind         INTEGER NOT NULL,
	priority     INTEGER NOT NULL,
	same_payload INTEGER NOT NULL, -- the next revision has the same payload; payload is NULL here
	by_whom      TEXT NOT NULL, -- who replaced it; '': Carillon itself
	role         TEXT NOT NULL,
	action       TEXT NOT NULL,
	name         TEXT NOT NULL,
	pause_note   TEXT,
	tags         TEXT,
	spec         BLOB NOT NULL,
	target       BLOB NOT NULL,
	payload      BLOB,
	PRIMARY KEY (tenant, job, revision)
) WITHOUT ROWID, STRICT;

-- Named lists of days and times that schedules skip.
CREATE TABLE calendars (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	updated_at INTEGER NOT NULL,
	spec       BLOB NOT NULL,
	PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;

-- Jobs that were paused or resumed while more executions waited than one
-- transaction may hold or release. Executions up to behind are done.
CREATE TABLE settling (
	tenant TEXT NOT NULL,
	job    BLOB NOT NULL,
	behind INTEGER NOT NULL,
	at     INTEGER NOT NULL, -- when the last batch was done
	PRIMARY KEY (tenant, job)
) WITHOUT ROWID, STRICT;

-- Answers to requests with an idempotency key.
CREATE TABLE idempotency (
	tenant     TEXT NOT NULL,
	key        TEXT NOT NULL,
	expires_at INTEGER NOT NULL,
	hash       BLOB NOT NULL,
	answer     BLOB NOT NULL,
	PRIMARY KEY (tenant, key)
) WITHOUT ROWID, STRICT;
CREATE INDEX idempotency_expired ON idempotency (expires_at);

-- ── Live work ───────────────────────────────────────────────────────────────

-- Executions that have not finished.
--
-- lease decides who owns an execution. Above 0, it is leased under that fencing
-- token. Otherwise it is free, and the absolute value is the last token it was
-- leased under. No index names a column that a lease or a release changes, so
-- that these write the row alone. A concurrency group has a lane of its own, so
-- that executions waiting for it block nobody.
--
-- The execution that a one-off job was created with has the job's id. It is found
-- by that, so live_fire, executions_job and job_stats leave it out.
CREATE TABLE live (
	id            BLOB NOT NULL PRIMARY KEY,
	lease         INTEGER NOT NULL DEFAULT 0,
	hold          INTEGER NOT NULL DEFAULT 0, -- 1: its job is paused; 2: it waits for the jobs that its job depends on
	due_at        INTEGER NOT NULL,
	scheduled_at  INTEGER NOT NULL,
	nonce         INTEGER NOT NULL,
	leased_at     INTEGER,
	started_at    INTEGER,
	attempt       INTEGER NOT NULL DEFAULT 0, -- leases, without those that were handed back
	tries         INTEGER NOT NULL DEFAULT 0, -- failures that used up a retry
	lost          INTEGER NOT NULL DEFAULT 0, -- leases that ended without a result
	max_attempts  INTEGER NOT NULL,
	part          INTEGER NOT NULL,
	priority      INTEGER NOT NULL,
	trigger       INTEGER NOT NULL,
	job           BLOB NOT NULL,
	worker        BLOB, -- the session that holds it, or held it last
	retry_of      BLOB,
	tenant        TEXT NOT NULL,
	class         TEXT NOT NULL, -- what a worker needs to run it, as package job writes it
	cancel_at     INTEGER, -- when a cancel was requested; only while it is leased
	cancel_reason TEXT,
	group_key     INTEGER NOT NULL DEFAULT 0, -- concurrency group; 0: none
	group_limits  BLOB, -- its concurrency limit and its rate's count, microseconds and burst, 8 bytes each; NULL: none
	timeout_ms    INTEGER NOT NULL DEFAULT 0, -- for one attempt; 0: none
	stall_ms      INTEGER,
	expires_at    INTEGER, -- it expires unless it has started by then
	unique_key    TEXT,
	parked_until  INTEGER, -- its target took it over and must complete it by then
	progress_at   INTEGER,
	progress      BLOB,
	payload       BLOB -- NULL: the job's
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX live_fire ON live (job, scheduled_at, nonce) WHERE id <> job; -- an instant fires once
CREATE INDEX live_lane ON live (part, tenant, class, group_key, priority, due_at, id);
CREATE UNIQUE INDEX live_unique ON live (tenant, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX live_expires ON live (expires_at) WHERE expires_at IS NOT NULL AND started_at IS NULL;
CREATE INDEX live_parked ON live (parked_until) WHERE parked_until IS NOT NULL;
CREATE INDEX live_dependent ON live (job, scheduled_at) WHERE hold = 2;
CREATE INDEX live_tenant ON live (tenant, scheduled_at, id) WHERE priority > 0; -- true for every row, so that only lists use it
CREATE INDEX live_runs ON live (tenant, scheduled_at, id) WHERE class = 'workflow'; -- runs that wait to begin, and those that have

-- ── Sessions and leases ─────────────────────────────────────────────────────

-- The next fencing token: the epoch of the store times 2^40, plus a number.
CREATE TABLE tokens (next INTEGER NOT NULL) STRICT;
INSERT INTO tokens (next) VALUES (1099511627776);

-- What each lease gave to a worker's session. An execution that has finished or
-- was leased again no longer carries the token in live and does not count.
CREATE TABLE leases (
	lease  INTEGER PRIMARY KEY,
	at     INTEGER NOT NULL,
	worker BLOB NOT NULL,
	ids    BLOB NOT NULL -- 16 bytes each
) STRICT;
CREATE INDEX leases_worker ON leases (worker);

-- Workers that are connected, and those that were.
CREATE TABLE sessions (
	id           BLOB NOT NULL PRIMARY KEY,
	deposed      INTEGER NOT NULL DEFAULT 0,
	started_at   INTEGER,
	expires_at   INTEGER NOT NULL,
	beat_at      INTEGER NOT NULL,
	capacity     INTEGER NOT NULL,
	running      INTEGER NOT NULL, -- running to draining: as of its last heartbeat
	completed    INTEGER NOT NULL,
	failed       INTEGER NOT NULL,
	draining     INTEGER NOT NULL,
	tenant       TEXT, -- NULL: it serves every tenant
	host         TEXT NOT NULL,
	version      TEXT NOT NULL,
	secret       BLOB, -- a hash; NULL: it cannot be used over the network
	labels       TEXT, -- labels to kinds: a JSON array; NULL: none
	queues       TEXT,
	targets      TEXT,
	kinds        TEXT,
	drain        INTEGER NOT NULL DEFAULT 0, -- it was asked to take no more work
	cordoned     INTEGER NOT NULL DEFAULT 0, -- it gets no more work until it is uncordoned
	memory_used  INTEGER NOT NULL DEFAULT 0, -- in bytes; 0: unknown
	memory_limit INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID, STRICT;

-- What sessions learn from their next heartbeat: a cancel, valid while live
-- carries its token, or that a lease is lost, for an hour.
CREATE TABLE orders (
	worker    BLOB NOT NULL,
	execution BLOB NOT NULL,
	token     INTEGER NOT NULL,
	kind      INTEGER NOT NULL,
	at        INTEGER NOT NULL, -- of a cancel: live.cancel_at
	PRIMARY KEY (worker, execution, token)
) WITHOUT ROWID, STRICT;
CREATE INDEX orders_age ON orders (kind, at);

-- Values of this installation, such as the key of callback tokens.
CREATE TABLE installation (
	name  TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID, STRICT;

-- ── Limits ──────────────────────────────────────────────────────────────────

-- Limits of a tenant (queue '') and of its queues. A row may exist only because
-- its queue is paused: then nothing in it starts.
CREATE TABLE limits (
	tenant         TEXT NOT NULL,
	queue          TEXT NOT NULL,
	max_concurrent INTEGER NOT NULL, -- 0: no limit
	rate_count     INTEGER NOT NULL, -- 0: no limit
	rate_us        INTEGER NOT NULL,
	rate_burst     INTEGER NOT NULL,
	paused_at      INTEGER, -- NULL: it is not paused
	paused_until   INTEGER, -- NULL: until it is resumed
	paused_by      TEXT NOT NULL DEFAULT '',
	pause_reason   TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, queue)
) WITHOUT ROWID, STRICT;

-- Token buckets of rate limits. full_us is when, in microseconds since 1970, the
-- bucket is full again.
CREATE TABLE buckets (
	bucket  TEXT NOT NULL PRIMARY KEY,
	full_us INTEGER NOT NULL,
	step_us INTEGER NOT NULL DEFAULT 0, -- the rate it fills by, to convert its level when the rate changes; 0: unknown
	burst   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID, STRICT;
CREATE INDEX buckets_age ON buckets (full_us);

-- How many active jobs a tenant with a job quota has: as last counted, plus what
-- was created since.
CREATE TABLE job_counts (
	tenant     TEXT NOT NULL PRIMARY KEY,
	active     INTEGER NOT NULL,
	counted_at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- ── History ─────────────────────────────────────────────────────────────────

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
	leased_at    INTEGER, -- of the last attempt; NULL: the same as started_at
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
CREATE INDEX executions_job ON executions (job, scheduled_at, id) WHERE id <> job;
CREATE INDEX executions_unwell ON executions (finished_at, id) WHERE status > 10 AND status <> 13; -- neither succeeded nor cancelled
-- For lists: a tenant's executions, and those that did not succeed, which are few
-- and often looked for. The first condition is true for every row: only lists
-- name it, so only lists use the index.
CREATE INDEX executions_tenant ON executions (tenant, scheduled_at, id) WHERE status > 0;
CREATE INDEX executions_ill ON executions (tenant, scheduled_at, id, status) WHERE status > 10;

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

-- What happened to executions beyond what their rows and attempts show.
CREATE TABLE events (
	execution BLOB NOT NULL,
	kind      TEXT NOT NULL,
	token     INTEGER NOT NULL, -- 0: without a lease; of a rerun: derived from the new execution, so that two differ
	at        INTEGER NOT NULL,
	attempt   INTEGER NOT NULL DEFAULT 0,
	worker    BLOB,
	tenant    TEXT NOT NULL,
	note      TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (execution, kind, token)
) WITHOUT ROWID, STRICT;

-- Executions that failed for good, until someone reruns or discards them.
CREATE TABLE dead_letters (
	execution  BLOB NOT NULL PRIMARY KEY,
	tenant     TEXT NOT NULL,
	job        BLOB NOT NULL,
	at         INTEGER NOT NULL, -- when the execution finished
	reason     TEXT NOT NULL,
	message    TEXT, -- a copy of the last error's, for search
	redrive_at INTEGER -- when it is rerun automatically
) WITHOUT ROWID, STRICT;
CREATE INDEX dead_letters_at ON dead_letters (tenant, at, execution);
CREATE INDEX dead_letters_job ON dead_letters (tenant, job, at, execution);
CREATE INDEX dead_letters_redrive ON dead_letters (redrive_at) WHERE redrive_at IS NOT NULL;
CREATE INDEX dead_letters_reason ON dead_letters (tenant, reason, at, execution);

-- Output of attempts, in compressed chunks of lines. Each chunk of an attempt
-- begins where the one before it ends, so that a chunk sent twice is stored once.
CREATE TABLE logs (
	execution BLOB NOT NULL,
	token     INTEGER NOT NULL, -- of the attempt's lease
	first     INTEGER NOT NULL, -- number of its first line
	upto      INTEGER NOT NULL, -- number of its last line, plus 1
	bytes     INTEGER NOT NULL, -- length of the attempt's log up to the end of this chunk
	cut       INTEGER NOT NULL, -- the log reached its limit here
	attempt   INTEGER NOT NULL,
	tenant    TEXT NOT NULL,
	data      BLOB NOT NULL,
	PRIMARY KEY (execution, token, first)
) STRICT;

-- Files to which days of finished executions were moved. A file answers for its
-- executions in the states 2 and 3; before, the store does.
CREATE TABLE archive_files (
	name       TEXT NOT NULL PRIMARY KEY,
	kind       INTEGER NOT NULL, -- 1: executions, 2: logs
	state      INTEGER NOT NULL, -- 0: begun, 1: proved, 2: answers, 3: settled, 4: retired
	day        INTEGER NOT NULL,
	part       INTEGER NOT NULL,
	rows       INTEGER NOT NULL,
	bytes      INTEGER NOT NULL,
	check_sum  INTEGER NOT NULL, -- the sum of engine.Finished.Check of all rows, modulo 2^32
	hash       BLOB NOT NULL, -- SHA-256
	read_at    INTEGER NOT NULL,
	written_at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX archive_files_day ON archive_files (day, kind);

-- What files have of each tenant.
CREATE TABLE archive_shares (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	rows       INTEGER NOT NULL,
	first_at   INTEGER NOT NULL, -- the least scheduled time
	last_at    INTEGER NOT NULL,
	made_from  INTEGER NOT NULL, -- the least instant of the executions' ids
	made_until INTEGER NOT NULL,
	PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;
CREATE INDEX archive_shares_name ON archive_shares (name);

-- Whose turn it is to move history: one row.
CREATE TABLE archive_turn (
	one    INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
	epoch  INTEGER NOT NULL,
	holder BLOB,
	until  INTEGER,
	note   BLOB NOT NULL
) WITHOUT ROWID, STRICT;
INSERT INTO archive_turn (epoch, note) VALUES (0, X'');

-- The trace of the request that created a job or an execution; kept for a week.
CREATE TABLE traces (
	of     BLOB NOT NULL PRIMARY KEY, -- the id of a job or an execution
	tenant TEXT NOT NULL,
	at     INTEGER NOT NULL,
	parent TEXT NOT NULL -- a traceparent
) WITHOUT ROWID, STRICT;
CREATE INDEX traces_at ON traces (at);

-- ── Workflow runs ───────────────────────────────────────────────────────────

-- A run is the execution of a job whose target is a workflow; its id is that of
-- the first attempt's execution. state holds where every node stands, as package
-- workflow writes it. Every change locks the row and adds 1 to seq.
CREATE TABLE runs (
	begun_at     INTEGER NOT NULL,
	ended_at     INTEGER,
	scheduled_at INTEGER NOT NULL,
	seq          INTEGER NOT NULL,
	token        INTEGER NOT NULL, -- under which its execution is held
	id           BLOB NOT NULL PRIMARY KEY,
	execution    BLOB NOT NULL, -- of its current attempt
	workflow     BLOB NOT NULL,
	version      INTEGER NOT NULL,
	attempt      INTEGER NOT NULL,
	status       INTEGER NOT NULL,
	tenant       TEXT NOT NULL,
	state        BLOB NOT NULL,
	input        BLOB,
	output       BLOB,
	ending       BLOB
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX runs_execution ON runs (execution);
CREATE INDEX runs_tenant ON runs (tenant, scheduled_at, id);
CREATE INDEX runs_workflow ON runs (tenant, workflow, scheduled_at, id);
CREATE INDEX runs_ended ON runs (tenant, ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_open ON runs (begun_at) WHERE ended_at IS NULL;

-- Earlier attempts of runs that were retried.
CREATE TABLE run_attempts (
	execution BLOB NOT NULL PRIMARY KEY,
	run       BLOB NOT NULL,
	tenant    TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX run_attempts_run ON run_attempts (run);

-- The executions of nodes. place is the node's number times 2^24, plus the number
-- of the map's item, counted from 1; 0: the node is no map. status is 0 until the
-- run knows how the execution ended.
CREATE TABLE run_members (
	created_at  INTEGER NOT NULL,
	started_at  INTEGER,
	finished_at INTEGER,
	place       INTEGER NOT NULL,
	execution   BLOB NOT NULL PRIMARY KEY,
	run         BLOB NOT NULL,
	attempt     INTEGER NOT NULL, -- of the run
	status      INTEGER NOT NULL DEFAULT 0,
	tenant      TEXT NOT NULL,
	target      BLOB -- what it runs, where templates changed the job's
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX run_members_run ON run_members (run, place, attempt); -- a node starts once in each attempt of its run

-- Ends of members that their runs do not know of yet, written in the commit that
-- ended them. The place -1 says that the run itself is to be cancelled.
CREATE TABLE run_marks (
	started_at  INTEGER,
	finished_at INTEGER NOT NULL,
	place       INTEGER NOT NULL,
	execution   BLOB NOT NULL,
	run         BLOB NOT NULL,
	status      INTEGER NOT NULL,
	tenant      TEXT NOT NULL,
	result      BLOB,
	ending      BLOB,
	PRIMARY KEY (execution, place)
) WITHOUT ROWID, STRICT;
CREATE INDEX run_marks_run ON run_marks (run, finished_at);
CREATE INDEX run_marks_age ON run_marks (finished_at);
CREATE INDEX run_marks_asked ON run_marks (run) WHERE place < 0; -- of what is asked of runs themselves, to find it at once

-- Results and errors of nodes, where another node reads them.
CREATE TABLE run_results (
	place  INTEGER NOT NULL,
	run    BLOB NOT NULL,
	tenant TEXT NOT NULL,
	result BLOB,
	ending BLOB,
	PRIMARY KEY (run, place)
) WITHOUT ROWID, STRICT;

-- When maps and waits began and ended: they have no execution of their own that
-- says so.
CREATE TABLE run_spans (
	started_at  INTEGER NOT NULL,
	finished_at INTEGER,
	place       INTEGER NOT NULL,
	run         BLOB NOT NULL,
	tenant      TEXT NOT NULL,
	PRIMARY KEY (run, place)
) WITHOUT ROWID, STRICT;

-- What runs wait for: timers, approvals, events, deadlines of nodes and, as node
-- -1, of the run.
CREATE TABLE run_waits (
	begun_at INTEGER NOT NULL,
	wake_at  INTEGER, -- when somebody must look at it
	until_at INTEGER, -- when it has taken too long
	run      BLOB NOT NULL,
	node     INTEGER NOT NULL,
	kind     INTEGER NOT NULL,
	tenant   TEXT NOT NULL,
	event    TEXT NOT NULL,
	digest   BLOB NOT NULL, -- of match, for the index; empty: any event matches
	match    BLOB,
	votes    BLOB,
	asks     BLOB, -- of an approval: who may decide, for lists
	schema   BLOB, -- of an approval: of what a vote says
	voters   BLOB, -- of an approval: who has voted, for lists
	PRIMARY KEY (run, node, kind)
) WITHOUT ROWID, STRICT;
CREATE INDEX run_waits_wake ON run_waits (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX run_waits_event ON run_waits (tenant, event, digest, run) WHERE kind = 3;
CREATE INDEX run_waits_approval ON run_waits (tenant, begun_at, run) WHERE kind = 2;

-- Events of the last day, for waits that begin after them.
CREATE TABLE run_events (
	at      INTEGER NOT NULL,
	id      BLOB NOT NULL PRIMARY KEY,
	tenant  TEXT NOT NULL,
	event   TEXT NOT NULL,
	digest  BLOB NOT NULL, -- of match, for the index
	match   BLOB,
	payload BLOB,
	woken   BLOB -- the last run whose waits it has woken; NULL: all have been
) WITHOUT ROWID, STRICT;
CREATE INDEX run_events_event ON run_events (tenant, event, at);
CREATE INDEX run_events_match ON run_events (tenant, event, digest, at);
CREATE INDEX run_events_at ON run_events (at);
CREATE INDEX run_events_woken ON run_events (at) WHERE woken IS NOT NULL;

-- ── Statistics ──────────────────────────────────────────────────────────────

-- Totals of a job's finished executions, updated as they finish. The execution
-- that a one-off job was created with is left out: finishing it writes no row
-- here, and it is found by its id.
CREATE TABLE job_stats (
	tenant           TEXT NOT NULL,
	job              BLOB NOT NULL,
	total            INTEGER NOT NULL,
	succeeded        INTEGER NOT NULL,
	timed            INTEGER NOT NULL, -- those that started
	sum_us           INTEGER NOT NULL, -- their total duration
	last_status      INTEGER NOT NULL, -- of the one that finished last
	last_finished_at INTEGER NOT NULL,
	last_run_at      INTEGER, -- when the latest of them started
	PRIMARY KEY (tenant, job)
) WITHOUT ROWID, STRICT;

-- How many of those that started took how long (job.Bucket).
CREATE TABLE job_durations (
	tenant TEXT NOT NULL,
	job    BLOB NOT NULL,
	bucket INTEGER NOT NULL,
	n      INTEGER NOT NULL,
	PRIMARY KEY (tenant, job, bucket)
) WITHOUT ROWID, STRICT;

-- What each process counted in each minute, for the last two days.
CREATE TABLE minutes (
	at           INTEGER NOT NULL,
	server       BLOB NOT NULL,
	started      INTEGER NOT NULL,
	completed    INTEGER NOT NULL,
	failed       INTEGER NOT NULL,
	again        INTEGER NOT NULL,
	waited       INTEGER NOT NULL,
	wait_us      INTEGER NOT NULL,
	max_wait_us  INTEGER NOT NULL,
	fired        INTEGER NOT NULL,
	delay_us     INTEGER NOT NULL,
	max_delay_us INTEGER NOT NULL,
	PRIMARY KEY (at, server)
) WITHOUT ROWID, STRICT;

-- The same by tenant. In this and the next tables tenant '' means all tenants
-- together, and counts, queues and days are package engine's stored forms.
CREATE TABLE tenant_minutes (
	tenant TEXT NOT NULL,
	at     INTEGER NOT NULL,
	server BLOB NOT NULL,
	counts BLOB NOT NULL,
	PRIMARY KEY (tenant, at, server)
) WITHOUT ROWID, STRICT;
CREATE INDEX tenant_minutes_age ON tenant_minutes (at);

-- How many executions waited and ran. Tenant '' has a row for every minute that
-- was looked at.
CREATE TABLE depths (
	tenant TEXT NOT NULL,
	at     INTEGER NOT NULL,
	queues BLOB NOT NULL,
	PRIMARY KEY (tenant, at)
) WITHOUT ROWID, STRICT;
CREATE INDEX depths_age ON depths (at);

-- Results of a job's executions by day. month is year * 12 + month - 1.
CREATE TABLE job_months (
	tenant TEXT NOT NULL,
	job    BLOB NOT NULL,
	month  INTEGER NOT NULL,
	days   BLOB NOT NULL,
	PRIMARY KEY (tenant, job, month)
) WITHOUT ROWID, STRICT;
CREATE INDEX job_months_age ON job_months (month);

-- Errors by hour, job and fingerprint.
CREATE TABLE failures (
	tenant      TEXT NOT NULL,
	hour        INTEGER NOT NULL,
	fingerprint BLOB NOT NULL,
	job         BLOB NOT NULL,
	failed      INTEGER NOT NULL,
	retried     INTEGER NOT NULL,
	first_at    INTEGER NOT NULL,
	last_at     INTEGER NOT NULL,
	execution   BLOB NOT NULL, -- the last one
	PRIMARY KEY (tenant, hour, fingerprint, job)
) WITHOUT ROWID, STRICT;
CREATE INDEX failures_job ON failures (tenant, job, hour);
CREATE INDEX failures_age ON failures (hour);

-- The errors that fingerprints stand for.
CREATE TABLE fingerprints (
	tenant      TEXT NOT NULL,
	fingerprint BLOB NOT NULL,
	seen_at     INTEGER NOT NULL, -- approximate
	type        TEXT NOT NULL,
	message     TEXT NOT NULL,
	sample      TEXT NOT NULL,
	PRIMARY KEY (tenant, fingerprint)
) WITHOUT ROWID, STRICT;
CREATE INDEX fingerprints_age ON fingerprints (seen_at);

-- The number of each process's last batch of counts, so that none is added twice.
CREATE TABLE tally_marks (
	server BLOB NOT NULL PRIMARY KEY,
	number INTEGER NOT NULL,
	at     INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX tally_marks_age ON tally_marks (at);

-- ── Notifications ───────────────────────────────────────────────────────────

-- Rules for what tenants are notified of.
CREATE TABLE notification_rules (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	spec       BLOB NOT NULL,
	PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;

-- Conditions of jobs that a rule has reported and that still hold.
CREATE TABLE alarms (
	tenant    TEXT NOT NULL,
	rule      TEXT NOT NULL,
	job       BLOB NOT NULL,
	event     TEXT NOT NULL,
	since     INTEGER NOT NULL,
	execution BLOB,
	PRIMARY KEY (tenant, rule, job, event)
) WITHOUT ROWID, STRICT;

-- How far the search for events has come: one row.
CREATE TABLE watched (
	one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	at  INTEGER NOT NULL
) STRICT;

-- ── Secrets and signing ─────────────────────────────────────────────────────

-- Secrets that jobs refer to, encrypted before they come here.
CREATE TABLE secrets (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	version    INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	expires_at INTEGER, -- set when its job is deleted
	job        BLOB, -- the job that manages it; NULL: a person created it
	key_id     TEXT NOT NULL, -- the key it is encrypted with
	sealed     BLOB NOT NULL,
	PRIMARY KEY (tenant, name)
) STRICT;
CREATE INDEX secrets_job ON secrets (tenant, job) WHERE job IS NOT NULL;
CREATE INDEX secrets_expired ON secrets (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX secrets_named ON secrets (tenant, name) WHERE job IS NULL; -- the few that people created, to list and count them
CREATE INDEX secrets_key ON secrets (key_id); -- which keys are in use
CREATE TRIGGER secrets_of_job AFTER DELETE ON jobs BEGIN
	DELETE FROM secrets WHERE tenant = OLD.tenant AND job = OLD.id AND job IS NOT NULL;
END;

-- Values of secrets before they were changed or deleted, so that output of
-- attempts that still know them can be redacted.
CREATE TABLE past_secrets (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	job        BLOB, -- the job that managed it; NULL: a person created it
	key_id     TEXT NOT NULL,
	sealed     BLOB NOT NULL,
	dropped_at INTEGER NOT NULL
) STRICT;
CREATE INDEX past_secrets_whose ON past_secrets (tenant, job, dropped_at);
CREATE INDEX past_secrets_age ON past_secrets (dropped_at);
CREATE TRIGGER past_secret_changed AFTER UPDATE OF version ON secrets WHEN NEW.version <> OLD.version BEGIN
	INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at)
	VALUES (OLD.tenant, OLD.name, OLD.job, OLD.key_id, OLD.sealed, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER past_secret_dropped AFTER DELETE ON secrets WHEN OLD.expires_at IS NULL BEGIN
	INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at)
	VALUES (OLD.tenant, OLD.name, OLD.job, OLD.key_id, OLD.sealed, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
-- Only the newest are kept: 20 for each job; 20 for each name that a person
-- created, and of these 1000 and 1 MiB for each tenant.
CREATE TRIGGER past_secrets_of_job AFTER INSERT ON past_secrets WHEN NEW.job IS NOT NULL BEGIN
	DELETE FROM past_secrets WHERE rowid IN (
		SELECT rowid FROM past_secrets WHERE tenant = NEW.tenant AND job = NEW.job ORDER BY dropped_at DESC, rowid DESC LIMIT -1 OFFSET 20);
END;
CREATE TRIGGER past_secrets_of_people AFTER INSERT ON past_secrets WHEN NEW.job IS NULL BEGIN
	DELETE FROM past_secrets WHERE rowid IN (
		SELECT rowid FROM past_secrets WHERE tenant = NEW.tenant AND job IS NULL AND name = NEW.name ORDER BY dropped_at DESC, rowid DESC LIMIT -1 OFFSET 20);
	DELETE FROM past_secrets WHERE rowid IN (
		SELECT id FROM (
			SELECT rowid AS id, row_number() OVER newest AS n, sum(length(sealed)) OVER newest AS bytes
			FROM past_secrets WHERE tenant = NEW.tenant AND job IS NULL
			WINDOW newest AS (ORDER BY dropped_at DESC, rowid DESC ROWS UNBOUNDED PRECEDING)
		) WHERE n > 1000 OR bytes > 1048576);
END;

-- Secrets that callbacks are signed with, encrypted. A tenant's newest has no
-- expiry.
CREATE TABLE signing_secrets (
	tenant     TEXT NOT NULL,
	id         TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER,
	prefix     TEXT NOT NULL, -- the start of the secret, to recognise it
	sealed     BLOB NOT NULL,
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;

-- ── Blobs ───────────────────────────────────────────────────────────────────

-- Objects such as artifacts, where the store itself holds them: see package
-- blob. An object is written chunk by chunk, appears under its name in one
-- commit, and is taken out of sight before its chunks are deleted.
CREATE TABLE blobs (
	id     BLOB NOT NULL PRIMARY KEY,
	at     INTEGER NOT NULL, -- when writing began
	size   INTEGER NOT NULL,
	state  INTEGER NOT NULL, -- 0: being written, 1: whole, 2: being deleted
	tenant TEXT NOT NULL, -- '': of the installation
	name   TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX blobs_name ON blobs (name) WHERE state = 1;
CREATE INDEX blobs_left ON blobs (at) WHERE state <> 1;

CREATE TABLE blob_chunks (
	blob   BLOB NOT NULL,
	n      INTEGER NOT NULL, -- all chunks but the last have the same size
	sum    INTEGER NOT NULL, -- CRC-32C
	tenant TEXT NOT NULL,
	data   BLOB NOT NULL,
	PRIMARY KEY (blob, n)
) STRICT;

-- ── Audit log ───────────────────────────────────────────────────────────────

-- Every change that someone requested: written with the change, never updated.
CREATE TABLE audit (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT,
	at      INTEGER NOT NULL,
	count   INTEGER NOT NULL, -- how many objects a batch changed; object is the first
	tenant  TEXT NOT NULL,
	by_whom TEXT NOT NULL,
	role    TEXT NOT NULL,
	key_id  TEXT NOT NULL, -- '': none
	origin  TEXT NOT NULL, -- the caller's address
	request TEXT NOT NULL, -- the request's id
	action  TEXT NOT NULL,
	object  TEXT NOT NULL,
	detail  BLOB -- before and after
) STRICT;
CREATE INDEX audit_tenant ON audit (tenant, seq);

-- Seals over ranges of entries, in chains: see package audit.
CREATE TABLE audit_seals (
	tenant    TEXT NOT NULL,
	number    INTEGER NOT NULL,
	sealed_at INTEGER NOT NULL,
	first     INTEGER NOT NULL,
	last      INTEGER NOT NULL,
	prev      BLOB NOT NULL,
	hash      BLOB NOT NULL,
	marks     BLOB NOT NULL,
	PRIMARY KEY (tenant, number)
) WITHOUT ROWID, STRICT;
CREATE INDEX audit_seals_age ON audit_seals (sealed_at);

-- The last entry that is sealed: one row.
CREATE TABLE audit_sealed (upto INTEGER NOT NULL) STRICT;
INSERT INTO audit_sealed (upto) VALUES (0);

-- ── Other settings ──────────────────────────────────────────────────────────

-- Bulk operations, such as rerunning all dead letters of a queue.
CREATE TABLE operations (
	id          BLOB NOT NULL PRIMARY KEY,
	tenant      TEXT NOT NULL,
	kind        TEXT NOT NULL,
	state       TEXT NOT NULL,
	created_at  INTEGER NOT NULL,
	updated_at  INTEGER NOT NULL,
	finished_at INTEGER,
	taken_until INTEGER, -- someone is working on it
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

-- What is not purged, whatever its retention.
CREATE TABLE holds (
	tenant  TEXT NOT NULL,
	id      TEXT NOT NULL,
	job     BLOB, -- NULL: the whole tenant
	reason  TEXT NOT NULL,
	by_whom TEXT NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;
CREATE INDEX holds_job ON holds (tenant, job);

-- Public status badges of jobs. hash is the hash of the token in the address.
CREATE TABLE badges (
	tenant     TEXT NOT NULL,
	id         TEXT NOT NULL,
	job        BLOB NOT NULL,
	label      TEXT NOT NULL, -- '': the job's name
	hash       BLOB NOT NULL,
	created_at INTEGER NOT NULL,
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX badges_hash ON badges (hash);

-- Versions of the definitions of workflows; a row never changes. A workflow is a
-- job, whose target names its current version. jobs has 16 bytes for each node:
-- the job that it runs, or zeros.
CREATE TABLE workflow_versions (
	tenant     TEXT NOT NULL,
	workflow   BLOB NOT NULL,
	version    INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	by_whom    TEXT NOT NULL,
	definition BLOB NOT NULL, -- JSON
	jobs       BLOB NOT NULL,
	layout     BLOB NOT NULL DEFAULT x'', -- how the graph is drawn; empty: not known
	PRIMARY KEY (tenant, workflow, version)
) STRICT;

-- Which jobs, and other workflows, the current versions of workflows use.
CREATE TABLE workflow_uses (
	tenant   TEXT NOT NULL,
	job      BLOB NOT NULL,
	workflow BLOB NOT NULL,
	PRIMARY KEY (tenant, job, workflow)
) WITHOUT ROWID, STRICT;

-- The jobs that have a retention of their own, which their definitions name, too.
CREATE TABLE job_retentions (
	tenant      TEXT NOT NULL,
	job         BLOB NOT NULL,
	days        INTEGER NOT NULL,
	failed_days INTEGER NOT NULL,
	cut_at      INTEGER, -- when it was last shortened after its job was created; NULL: never
	PRIMARY KEY (tenant, job)
) WITHOUT ROWID, STRICT;

-- Which jobs other jobs depend on. token is the newest execution of the parent
-- that counts and that the child has not fired by.
CREATE TABLE job_edges (
	tenant   TEXT NOT NULL,
	child    BLOB NOT NULL,
	parent   BLOB NOT NULL,
	token    BLOB, -- NULL: there is none
	token_at INTEGER, -- when it ended
	PRIMARY KEY (tenant, child, parent)
) WITHOUT ROWID, STRICT;
CREATE INDEX job_edges_parent ON job_edges (tenant, parent, child);

-- Ends of executions that a dependent job does not know of yet, written in the
-- commit that ended them. A mark whose execution is the child itself asks to look
-- at the child again: it was changed or resumed.
CREATE TABLE edge_marks (
	child     BLOB NOT NULL,
	execution BLOB NOT NULL,
	tenant    TEXT NOT NULL,
	parent    BLOB NOT NULL,
	status    INTEGER NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY (child, execution)
) WITHOUT ROWID, STRICT;
CREATE INDEX edge_marks_child ON edge_marks (child, at, execution);
CREATE INDEX edge_marks_age ON edge_marks (at);
