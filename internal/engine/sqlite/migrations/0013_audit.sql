-- Every change that someone asked for: written with the change, and never again.
CREATE TABLE audit (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT,
	at      INTEGER NOT NULL,
	count   INTEGER NOT NULL, -- of a batch: how many, and object is the first
	tenant  TEXT NOT NULL,
	by_whom TEXT NOT NULL,
	role    TEXT NOT NULL,
	key_id  TEXT NOT NULL, -- '': none
	origin  TEXT NOT NULL, -- the caller's address
	request TEXT NOT NULL, -- its id
	action  TEXT NOT NULL,
	object  TEXT NOT NULL,
	detail  BLOB -- before and after
) STRICT;
CREATE INDEX audit_tenant ON audit (tenant, seq);

-- Seals over some entries each, in chains, see package audit.
CREATE TABLE audit_seals (
	tenant    TEXT NOT NULL,
	number    INTEGER NOT NULL,
	sealed_at INTEGER NOT NULL,
	first     INTEGER NOT NULL,
	last      INTEGER NOT NULL,
	prev      BLOB NOT NULL,
	hash      BLOB NOT NULL,
	marks     BLOB NOT NULL,
	PRIMARY KEY (tenant, number)
) WITHOUT ROWID, STRICT;
CREATE INDEX audit_seals_age ON audit_seals (sealed_at);

-- How far entries are sealed: one row.
CREATE TABLE audit_sealed (upto INTEGER NOT NULL) STRICT;
INSERT INTO audit_sealed (upto) VALUES (0);
