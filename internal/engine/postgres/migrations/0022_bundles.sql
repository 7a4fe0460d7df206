-- works with: 0013
-- Executions that were created together and have neither finished nor been treated one by one: one row for up to 32. They are
-- the own fires of one-off jobs, and have the ids of these. While a server lives that does not say that it knows them, nothing is
-- put here, and what is here becomes rows of live.
CREATE TABLE bundles (
	lane         bigint NOT NULL,
	due_at       timestamptz NOT NULL,
	scheduled_at timestamptz NOT NULL,
	key          uuid PRIMARY KEY, -- the first of ids
	priority     smallint NOT NULL,
	part         smallint NOT NULL,
	max_attempts int NOT NULL,
	timeout_ms   bigint NOT NULL, -- of an attempt; 0: nobody looks
	tenant       text COLLATE "C" NOT NULL,
	class        text COLLATE "C" NOT NULL,
	lease        bigint NOT NULL DEFAULT 0, -- 0: all of them wait; else all that are open run, for the first time
	leased_at    timestamptz,
	worker       uuid,
	open         bigint NOT NULL, -- those that have not finished, a bit for each, by its number
	ids          uuid[] NOT NULL, -- ascending
	groups       bigint[], -- of each; NULL: all are in none
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
CREATE INDEX bundles_lane ON bundles (lane, priority, due_at, key) WHERE lane >= 0; -- always so; see plans.go
CREATE INDEX bundles_tenant ON bundles (tenant, scheduled_at, key) WHERE priority > 0;

-- The bundles that a lease gave; what they hold is among its ids, too.
ALTER TABLE leases ADD COLUMN keys uuid[];
ALTER TABLE leases ALTER keys SET STORAGE EXTERNAL;

ALTER TABLE servers ADD COLUMN bundles boolean NOT NULL DEFAULT false; -- it knows of them
