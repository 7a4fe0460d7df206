-- works with: 0013
-- By which rate a bucket fills, so that it can be told how many tokens it holds when the rate changes; 0: not known.
ALTER TABLE buckets ADD COLUMN step_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE buckets ADD COLUMN burst INTEGER NOT NULL DEFAULT 0;
