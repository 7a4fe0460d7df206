-- works with: 0013
-- Jobs whose pause began or ended while more waited than one transaction may hold or free, and up to which instant it has.
CREATE TABLE settling (
	behind INTEGER NOT NULL,
	at     INTEGER NOT NULL, -- when it was last gone on with
	job    BLOB NOT NULL,
	tenant TEXT NOT NULL,
	PRIMARY KEY (tenant, job)
) WITHOUT ROWID;
