-- What attempts write: chunks of lines, compressed. Of an attempt's log each
-- chunk begins where the one before it ends, so that one is stored once.
CREATE TABLE logs (
	execution BLOB NOT NULL,
	token     INTEGER NOT NULL, -- of the attempt's lease
	first     INTEGER NOT NULL, -- the number of its first line
	upto      INTEGER NOT NULL, -- behind its last
	bytes     INTEGER NOT NULL, -- of the attempt's log up to here
	cut       INTEGER NOT NULL, -- the log has reached its limit here
	attempt   INTEGER NOT NULL,
	tenant    TEXT NOT NULL,
	data      BLOB NOT NULL,
	PRIMARY KEY (execution, token, first)
) STRICT;
