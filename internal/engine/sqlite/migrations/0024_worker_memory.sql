-- works with: 0013
-- The memory that workers report, in bytes; 0: unknown.
ALTER TABLE sessions ADD COLUMN memory_used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN memory_limit INTEGER NOT NULL DEFAULT 0;
