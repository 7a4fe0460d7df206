-- Rows of the first schema, as its servers write them. enginetest.FirstRows reads
-- them after every later step. Ids end with a number.

SELECT carillon_make_day(day::date) FROM generate_series(now() AT TIME ZONE 'UTC' - interval '1 day', now() AT TIME ZONE 'UTC', interval '1 day') day;

INSERT INTO jobs (tenant, id, part, state, kind, priority, max_attempts, revision, created_at, updated_at, key, name, spec, target) VALUES
	('default', '00000000-0000-7000-8000-000000000001', 5, 2, 3, 6, 4, 4, now(), now(), 'nightly', 'recurs', '{}', '{}'),
	('default', '00000000-0000-7000-8000-000000000002', 5, 1, 2, 6, 1, 1, now(), now(), NULL, 'later', '{}', '{}'),
	('default', '00000000-0000-7000-8000-000000000003', 5, 1, 1, 6, 1, 1, now(), now(), NULL, 'over', '{}', '{}');
INSERT INTO schedules (tenant, job, part, next_run_at, runs, revision, active) VALUES
	('default', '00000000-0000-7000-8000-000000000001', 5, 'epoch'::timestamptz + interval '9 s', 7, 4, false),
	('default', '00000000-0000-7000-8000-000000000002', 5, 'epoch'::timestamptz + interval '9 s', 0, 1, true);

-- One waits, one is leased.
INSERT INTO live (lane, id, job, due_at, scheduled_at, nonce, priority, part, trigger, max_attempts, attempt, tenant, class, lease, leased_at, started_at, worker, payload)
	SELECT 5::bigint << 56 | ('x' || encode(substr(sha256(convert_to('default' || E'\x1f' || class, 'UTF8')), 1, 7), 'hex'))::bit(56)::bigint, id, '00000000-0000-7000-8000-000000000001',
		now(), now(), nonce, 6, 5, 1, 4, 1, 'default', class, lease, leased_at, leased_at, worker, payload
	FROM (VALUES
		('00000000-0000-7000-8000-000000000010'::uuid, 1, -7, NULL, NULL::uuid, 'payload'::bytea),
		('00000000-0000-7000-8000-000000000011'::uuid, 2, 8, now(), '00000000-0000-7000-8000-000000000020'::uuid, NULL)
	) v(id, nonce, lease, leased_at, worker, payload), (SELECT E'http\x1f\x1f') c(class);
INSERT INTO sessions (id, started_at, expires_at, beat_at, capacity, host, version) VALUES
	('00000000-0000-7000-8000-000000000020', now(), now() + interval '1 hour', now(), 1, 'worker', 'first');
INSERT INTO leases (lease, at, worker, ids) VALUES (8, now(), '00000000-0000-7000-8000-000000000020', '{00000000-0000-7000-8000-000000000011}');

-- One failed, one succeeded that its job was created with.
INSERT INTO executions (id, job, tenant, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger, tally) VALUES
	('00000000-0000-7000-8000-000000000012', '00000000-0000-7000-8000-000000000001', 'default', 11, 5, now(), now(), now(), now(), 1, 1, 0, 1, 5, 6, 1, true),
	('00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000003', 'default', 10, 6, now(), now(), now(), now(), 1, 0, 0, 1, 5, 6, 8, false);
INSERT INTO dead_letters (tenant, execution, job, at, reason) VALUES
	('default', '00000000-0000-7000-8000-000000000012', '00000000-0000-7000-8000-000000000001', now(), 'retries_exhausted');
INSERT INTO job_stats (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at) VALUES
	('default', '00000000-0000-7000-8000-000000000001', 1, 0, 1, 1000, 11, now(), now());
