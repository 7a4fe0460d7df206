-- works with: 0013
-- Which request began a job or an execution, where the request is part of a trace; for a week.
CREATE TABLE traces (
	at     timestamptz NOT NULL,
	of     uuid PRIMARY KEY, -- a job's id, or an execution's
	tenant text COLLATE "C" NOT NULL,
	parent text COLLATE "C" NOT NULL -- a traceparent
);
CREATE INDEX traces_at ON traces (at);
