-- works with: 0013
-- What people's browsers are signed in as: a hash of the cookie, and the credential it was made with.
CREATE TABLE sign_ins (
	created_at timestamptz NOT NULL,
	used_at    timestamptz NOT NULL, -- to about a minute
	ends_at    timestamptz NOT NULL,
	hash       bytea PRIMARY KEY,
	id         text COLLATE "C" NOT NULL,
	tenant     text COLLATE "C" NOT NULL, -- '': all, of a worker's key
	role       text NOT NULL,
	name       text COLLATE "C" NOT NULL,
	key_id     text COLLATE "C" NOT NULL -- '': a token
);
CREATE INDEX sign_ins_whose ON sign_ins (tenant, key_id, name, created_at);
CREATE INDEX sign_ins_end ON sign_ins (ends_at);
