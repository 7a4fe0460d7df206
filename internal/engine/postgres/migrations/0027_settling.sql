-- works with: 0013
-- Jobs whose pause began or ended while more waited than one statement may hold or free, and up to which instant it has.
CREATE TABLE settling (
	behind timestamptz NOT NULL,
	at     timestamptz NOT NULL, -- when it was last gone on with
	job    uuid NOT NULL,
	tenant text COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, job)
);
