-- What attempts write: chunks of lines, compressed. Of an attempt's log each
-- chunk begins where the one before it ends, so that one is stored once.
CREATE TABLE logs (
	token     bigint NOT NULL, -- of the attempt's lease
	bytes     bigint NOT NULL, -- of the attempt's log up to here
	first     int NOT NULL, -- the number of its first line
	upto      int NOT NULL, -- behind its last
	attempt   int NOT NULL,
	cut       boolean NOT NULL, -- the log has reached its limit here
	execution uuid NOT NULL,
	tenant    text COLLATE "C" NOT NULL,
	data      bytea NOT NULL,
	PRIMARY KEY (execution, token, first)
);
ALTER TABLE logs ALTER COLUMN data SET STORAGE EXTERNAL; -- it is compressed already
