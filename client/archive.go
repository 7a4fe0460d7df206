package client

import (
	"context"
	"time"
)

// Archive is the state of the archive, to which days of history move.
type Archive struct {
	Place        string       `json:"place"`
	Layout       string       `json:"layout" enum:"shared,per-tenant"`
	HotDays      int          `json:"hot_days"`
	LagSeconds   float64      `json:"lag_seconds" doc:"For how long the oldest day should have moved."`
	CheckedAt    *time.Time   `json:"checked_at" doc:"When a server last looked for days to move; null: none has yet."`
	OverdueSince *string      `json:"overdue_since" doc:"The oldest day that should have moved, such as 2026-11-18; null: none."`
	Moving       *ArchiveMove `json:"moving" doc:"What is being moved, as of checked_at; null: nothing."`
	Moved        int64        `json:"moved" doc:"Executions that have moved since the beginning."`
	Error        *string      `json:"error" doc:"Why the last attempt failed; null: it did not."`
	ForeignFiles []string     `json:"foreign_files" doc:"The first objects that the catalogue does not know, as of the last daily look: not Carillon's, or written after the backup that the database was restored from. They are left alone."`
	Days         []ArchiveDay `json:"days" doc:"Latest first."`
}

// ArchiveMove is a day that is being moved.
type ArchiveMove struct {
	Day  string `json:"day"`
	Step string `json:"step" enum:"write,leave,drop,purge"`
	Rows int64  `json:"rows"`
}

// ArchiveDay counts the archived executions of one day of finish.
type ArchiveDay struct {
	Day        string `json:"day"`
	Settled    bool   `json:"settled" doc:"false while it is being moved."`
	Files      int    `json:"files"`
	Executions int64  `json:"executions"`
	LogLines   int64  `json:"log_lines"`
	Bytes      int64  `json:"bytes"`
}

// ArchiveCheck is the outcome of a check of some archived files.
type ArchiveCheck struct {
	Files    int              `json:"files" doc:"How many were read."`
	Bytes    int64            `json:"bytes"`
	Problems []ArchiveProblem `json:"problems"`
	Next     string           `json:"next" doc:"Send it as after to go on; empty: all files were checked."`
}

// ArchiveProblem describes a defect of an archived file.
type ArchiveProblem struct {
	File    string `json:"file"`
	Problem string `json:"problem"`
}

// ArchiveVerify asks for a check of archived files.
type ArchiveVerify struct {
	After string `json:"after,omitempty" doc:"Go on after this file."`
}

// Archive reads the state of the archive. It needs the role system.
func (c *Client) Archive(ctx context.Context) (Archive, error) {
	return get[Archive](ctx, c, "/admin/archive")
}

// RunArchive makes the server that answers look now for days to move and files to delete. It needs the role system.
func (c *Client) RunArchive(ctx context.Context) (Archive, error) {
	return post[Archive](ctx, c, "/admin/archive/run", nil)
}

// VerifyArchive reads archived files whole, for some seconds, and compares them with the catalogue. It needs the role system.
func (c *Client) VerifyArchive(ctx context.Context, v ArchiveVerify) (ArchiveCheck, error) {
	return post[ArchiveCheck](ctx, c, "/admin/archive/verify", v)
}
