-- works with: 0013
-- Which request began a job or an execution, where the request is part of a trace; for a week.
CREATE TABLE traces (
	of     BLOB NOT NULL PRIMARY KEY, -- a job's id, or an execution's
	tenant TEXT NOT NULL,
	at     INTEGER NOT NULL,
	parent TEXT NOT NULL -- a traceparent
) WITHOUT ROWID, STRICT;
CREATE INDEX traces_at ON traces (at);
