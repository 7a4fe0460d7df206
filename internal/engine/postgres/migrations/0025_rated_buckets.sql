-- works with: 0013
-- By which rate a bucket fills, so that it can be told how many tokens it holds when the rate changes; NULL: not known.
ALTER TABLE buckets ADD COLUMN step_us bigint, ADD COLUMN burst bigint;
