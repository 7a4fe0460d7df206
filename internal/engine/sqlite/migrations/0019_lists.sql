-- works with: 0013
-- Jobs by what they are listed by beside their tenant, in the order of the list: by
-- name; those that are paused or deleted; by type, but for the IMMEDIATE ones, of
-- which there are very many and which few ask for. And dead letters by reason.
CREATE INDEX jobs_name ON jobs (tenant, name, id);
CREATE INDEX jobs_aside ON jobs (tenant, state, id) WHERE state IN (2, 4);
CREATE INDEX jobs_kind ON jobs (tenant, kind, id) WHERE kind <> 1;
CREATE INDEX dead_letters_reason ON dead_letters (tenant, reason, at, execution);
