-- works with: 0013
-- Addresses at which anybody sees how a job is: a hash of the token in each.
CREATE TABLE badges (
	created_at timestamptz NOT NULL,
	job        uuid NOT NULL,
	tenant     text COLLATE "C" NOT NULL,
	id         text COLLATE "C" NOT NULL,
	label      text NOT NULL, -- '': the job's name
	hash       bytea NOT NULL,
	PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX badges_hash ON badges (hash);
