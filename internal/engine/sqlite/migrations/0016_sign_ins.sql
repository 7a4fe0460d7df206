-- works with: 0013
-- What people's browsers are signed in as: a hash of the cookie, and the credential it was made with.
CREATE TABLE sign_ins (
	hash       BLOB NOT NULL PRIMARY KEY,
	id         TEXT NOT NULL,
	tenant     TEXT NOT NULL, -- '': all, of a worker's key
	role       TEXT NOT NULL,
	name       TEXT NOT NULL,
	key_id     TEXT NOT NULL, -- '': a token
	created_at INTEGER NOT NULL,
	used_at    INTEGER NOT NULL, -- to about a minute
	ends_at    INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX sign_ins_whose ON sign_ins (tenant, key_id, name, created_at);
CREATE INDEX sign_ins_end ON sign_ins (ends_at);
