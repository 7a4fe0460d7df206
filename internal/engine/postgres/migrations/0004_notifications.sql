-- What tenants are told of by themselves.
CREATE TABLE notification_rules (
	created_at timestamptz NOT NULL,
	updated_at timestamptz NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	spec       bytea NOT NULL,
	PRIMARY KEY (tenant, name)
);

-- States of jobs that a rule has told of, and that have not ended.
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

-- What ended neither well nor by request, in the order in which it did; what succeeds is not in it.
CREATE INDEX executions_unwell ON executions (finished_at, id) WHERE status > 10 AND status <> 13;
