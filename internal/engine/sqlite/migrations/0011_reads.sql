-- Executions of a tenant in the order in which they are listed, and apart those
-- that did not succeed, which are few and looked for often. Each is partial over
-- all its rows, so that only those who ask for a list use it.
CREATE INDEX live_tenant ON live (tenant, scheduled_at, id) WHERE priority > 0;
CREATE INDEX executions_tenant ON executions (tenant, scheduled_at, id) WHERE status > 0;
CREATE INDEX executions_ill ON executions (tenant, scheduled_at, id, status) WHERE status > 10;

-- What each process has counted in each minute, of the last two days.
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
