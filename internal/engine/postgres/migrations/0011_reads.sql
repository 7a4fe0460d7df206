-- Executions of a tenant in the order in which they are listed, and apart those
-- that did not succeed, which are few and looked for often. Each is partial over
-- all its rows, so that only those who ask for a list use it; see plans.go.
CREATE INDEX live_tenant ON live (tenant, scheduled_at, id) WHERE priority > 0;
CREATE INDEX executions_tenant ON executions (tenant, scheduled_at, id) WHERE status > 0;
CREATE INDEX executions_ill ON executions (tenant, scheduled_at, id, status) WHERE status > 10;

-- What each server has counted in each minute, of the last two days.
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
