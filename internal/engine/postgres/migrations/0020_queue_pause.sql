-- works with: 0013
-- A queue that is paused: nothing of it starts. Its row may set no limit beside that.
ALTER TABLE limits
	ADD COLUMN paused_at timestamptz, -- NULL: it is not
	ADD COLUMN paused_until timestamptz, -- NULL: until it is resumed
	ADD COLUMN paused_by text NOT NULL DEFAULT '',
	ADD COLUMN pause_reason text NOT NULL DEFAULT '';
-- A worker that is cordoned is given nothing more until it is uncordoned.
ALTER TABLE sessions ADD COLUMN cordoned boolean NOT NULL DEFAULT false;
