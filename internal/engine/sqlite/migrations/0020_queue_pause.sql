-- works with: 0013
-- A queue that is paused: nothing of it starts. Its row may set no limit beside that.
ALTER TABLE limits ADD COLUMN paused_at INTEGER; -- NULL: it is not
ALTER TABLE limits ADD COLUMN paused_until INTEGER; -- NULL: until it is resumed
ALTER TABLE limits ADD COLUMN paused_by TEXT NOT NULL DEFAULT '';
ALTER TABLE limits ADD COLUMN pause_reason TEXT NOT NULL DEFAULT '';
-- A worker that is cordoned is given nothing more until it is uncordoned.
ALTER TABLE sessions ADD COLUMN cordoned INTEGER NOT NULL DEFAULT 0;
