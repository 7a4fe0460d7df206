-- works with: 0013
-- The memory that workers report, in bytes; 0: unknown.
ALTER TABLE sessions ADD COLUMN memory_used bigint NOT NULL DEFAULT 0, ADD COLUMN memory_limit bigint NOT NULL DEFAULT 0;
