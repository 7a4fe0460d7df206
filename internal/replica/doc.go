// Package replica keeps a copy of the embedded store in a place for objects, at
// most about a second behind, and puts a store together from it again.
//
//	Tap ─Cut─▶ segment ─▶ spool (files) ─▶ place      a segment: the pages that changed since the one before
//	Snapshot ─▶ parts ─▶ spool ─▶ place ─▶ manifest   a snapshot: every page after a segment
//	segments ─▶ merged object                         the last content of each page in many segments, which a restore reads in their stead
//	place ─▶ Survey ─▶ Choose ─▶ Assemble ─▶ file     a snapshot and the segments after it
//
// A generation is a row of segments without a gap, each of which names the
// checksum of the one before it, and snapshots within it. Whenever something may
// be missing, a new generation begins. Objects are never replaced, so two
// processes that write one generation notice each other, and the later one begins
// another.
//
// Backups are snapshots that belong to no generation. The package never writes
// to the store, never makes it wait, and deletes only objects whose names and
// content are its own. What it assembles is a file; package sqlite makes it a
// store again.
package replica

import "errors"

var (
	// ErrNone says that a place holds nothing that could be restored as asked.
	ErrNone = errors.New("nothing to restore")
	// ErrAmbiguous says that a place holds more than one thing that could be meant.
	ErrAmbiguous = errors.New("it is not clear what to restore")
	// ErrOthers says that a place holds the replica of another store.
	ErrOthers = errors.New("the place holds the replica of another store")
)
