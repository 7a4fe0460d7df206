-- works with: 0013
-- How often, and when last, a server was given one of those of a limit that do not divide.
ALTER TABLE limit_shares ADD COLUMN turns bigint NOT NULL DEFAULT 0, ADD COLUMN turn_at timestamptz;
