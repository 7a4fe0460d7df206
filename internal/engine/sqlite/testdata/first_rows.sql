-- Rows of the first schema, as its servers write them. enginetest.FirstRows reads
-- them after every later step. Ids end with a number.

INSERT INTO jobs (tenant, id, state, kind, priority, revision, created_at, updated_at, key, name, spec, target) VALUES
	('default', x'00000000000070008000000000000001', 2, 3, 6, 4, 1, 1, 'nightly', 'recurs', x'7b7d', x'7b7d'),
	('default', x'00000000000070008000000000000002', 1, 2, 6, 1, 1, 1, NULL, 'later', x'7b7d', x'7b7d'),
	('default', x'00000000000070008000000000000003', 1, 1, 6, 1, 1, 1, NULL, 'over', x'7b7d', x'7b7d');
INSERT INTO schedules (tenant, job, next_run_at, runs, revision, active) VALUES
	('default', x'00000000000070008000000000000001', 9000000, 7, 4, 0),
	('default', x'00000000000070008000000000000002', 9000000, 0, 1, 1);

-- One waits, one is leased.
INSERT INTO live (id, job, due_at, scheduled_at, nonce, priority, part, trigger, max_attempts, attempt, tenant, class, lease, leased_at, started_at, worker, payload) VALUES
	(x'00000000000070008000000000000010', x'00000000000070008000000000000001', 1, 1, 1, 6, 5, 1, 4, 1, 'default', 'http' || char(31) || char(31), -7, NULL, NULL, NULL, CAST('payload' AS BLOB)),
	(x'00000000000070008000000000000011', x'00000000000070008000000000000001', 1, 1, 2, 6, 5, 1, 4, 1, 'default', 'http' || char(31) || char(31), 8, 2, 2, x'00000000000070008000000000000020', NULL);
INSERT INTO sessions (id, started_at, expires_at, beat_at, capacity, running, completed, failed, draining, host, version) VALUES
	(x'00000000000070008000000000000020', 1, 9000000000000000, 1, 1, 1, 0, 0, 0, 'worker', 'first');
INSERT INTO leases (lease, at, worker, ids) VALUES (8, 2, x'00000000000070008000000000000020', x'00000000000070008000000000000011');

-- One failed, one succeeded that its job was created with.
INSERT INTO executions (id, job, tenant, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger) VALUES
	(x'00000000000070008000000000000012', x'00000000000070008000000000000001', 'default', 11, 5, 1001, 1, 1, 1, 1, 1, 0, 1, 5, 6, 1),
	(x'00000000000070008000000000000003', x'00000000000070008000000000000003', 'default', 10, 6, 1001, 1, 1, 1, 1, 0, 0, 1, 5, 6, 8);
INSERT INTO dead_letters (tenant, execution, job, at, reason) VALUES
	('default', x'00000000000070008000000000000012', x'00000000000070008000000000000001', 1001, 'retries_exhausted');
INSERT INTO job_stats (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at) VALUES
	('default', x'00000000000070008000000000000001', 1, 0, 1, 1000, 11, 1001, 1);
