-- What tenants are told of by themselves.
CREATE TABLE notification_rules (
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	spec       BLOB NOT NULL,
	PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;

-- States of jobs that a rule has told of, and that have not ended.
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

-- What ended neither well nor by request, in the order in which it did; what succeeds is not in it.
CREATE INDEX executions_unwell ON executions (finished_at, id) WHERE status > 10 AND status <> 13;
