// Package engine defines the ports: what the product requires of the technology under it. There is one so far, Store;
// brokers, coordinators and archives will be added beside it. A store has two parts. Hot is the path of jobs and
// executions, and each engine implements it natively. Settings is everything that people configure; package sqlstore
// implements it for every SQL database.
//
// When a method returns without an error, what it did is durable. When it returns an error, it did nothing or, if the
// connection broke at the commit, all of it. So a method that changes something may be called again with the same
// arguments and has the same effect. A method whose work grows with the data does a bounded part of it in one
// transaction and says how much, or that more is left; the caller calls again.
//
// What must never happen is a condition in the store's own WHERE, never a check before it: an execution's row holds
// the fencing token of its lease, and every write names the token it was given.
//
// The store decides no policy. What follows an outcome, when a job fires next and who may see what is decided in core
// and handed in. Every store passes one suite, enginetest.Store. Around wraps a store with a hook; it is generated
// from the ports.
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors that callers act on. A store wraps them with what was being done.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("the store cannot be reached") // also: it is too slow, full, or shutting down
	// ErrTooSlow means that a call was abandoned because it took too long: a smaller one may succeed. It is also
	// ErrUnavailable.
	ErrTooSlow = fmt.Errorf("%w: it took too long", ErrUnavailable)
	// ErrArchive means that archived history cannot be read: its place is away, or a file is gone or damaged. It is also
	// ErrUnavailable.
	ErrArchive = fmt.Errorf("%w: archived history cannot be read", ErrUnavailable)
	// ErrNoRoom means that the store's disk is full, and ErrReadOnly that it takes no writes. Each is also
	// ErrUnavailable.
	ErrNoRoom   = fmt.Errorf("%w: the disk is full", ErrUnavailable)
	ErrReadOnly = fmt.Errorf("%w: it is read-only", ErrUnavailable)
	ErrSession  = errors.New("the worker session has ended")
	ErrSchema   = errors.New("the schema is not this version's")
)

// Store stores definitions, live state and hot history.
type Store interface {
	Hot
	Settings
	Schema

	// Describe returns the engine, its version and where the data is, for people.
	Describe() string
	// Now returns the time of the clock that decides what is due.
	Now(ctx context.Context) (time.Time, error)
	// Migrate migrates the schema to this version; concurrent calls are safe.
	Migrate(ctx context.Context) error
	// Ping reports whether the store answers, takes writes (ErrReadOnly, ErrNoRoom) and has this version's schema (ErrSchema).
	Ping(ctx context.Context) error
	Close() error
}

// Page selects a part of a list: at most Limit rows after Cursor, an opaque text from an earlier page ("" for the
// first).
type Page struct {
	Limit     int
	Cursor    string
	Uncounted bool // no total is needed, for jobs and executions, where counting costs more than the page
	Bounded   bool // for executions, jobs and dead letters: it may end early, see ExecutionPage
}

// Total counts a whole list: exact up to TotalExact, then an estimate.
type Total struct {
	Count    int64
	Estimate bool
}

// TotalExact is the number up to which totals are exact.
const TotalExact = 10_000
