-- works with: 0013
-- Addresses at which anybody sees how a job is: a hash of the token in each.
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
