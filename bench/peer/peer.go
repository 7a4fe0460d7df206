// Package peer measures other job queues the way `carillon bench` measures Carillon: no-op jobs of 256 bytes,
// inserted in bulk, processed as a backlog, inserted and processed at once, and one at a time on an idle queue.
//
// Where a choice is free it is made for the peer: tables are empty and analysed before each phase, a backlog is timed
// from its first handler on and not from the start of the workers, and of several ways to insert the fastest counts.
// A job is done when the peer has recorded so durably, not when its handler returned.
package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/bench/report"
)

// Payload is the size of a job's arguments in bytes.
const Payload = 256

// Peer is a job queue under measurement.
type Peer interface {
	// Insert inserts one job and returns when it is durable.
	Insert(ctx context.Context, seq int) error
	// Ways returns the ways to insert a batch.
	Ways() []Way
	// Work starts workers that call handle at the start of each job, until stop.
	Work(ctx context.Context, handle func(seq int)) (stop func() error, err error)
	// Unfinished counts the jobs whose end is not yet recorded.
	Unfinished(ctx context.Context) (int, error)
	// Clear deletes every job.
	Clear(ctx context.Context) error
	// Settle lets the store take stock (VACUUM ANALYZE) before a backlog is worked off.
	Settle(ctx context.Context) error
	// Settings describes how the peer was configured.
	Settings() string
	Close()
}

// Way is one way to insert.
type Way struct {
	Name string
	// Insert inserts the jobs first to first+n-1 and returns when they are durable.
	Insert func(ctx context.Context, first, n int) error
}

// Config sets how much to measure.
type Config struct {
	Jobs      int
	Batch     int           // jobs in one insert
	Inserters int           // inserts at a time
	Pickups   int           // inserts into the idle queue
	Limit     time.Duration // of each phase
}

// Measure runs all phases.
func Measure(ctx context.Context, p Peer, c Config) (report.Numbers, error) {
	var n report.Numbers
	m := &measurement{peer: p, Config: c, numbers: &n}
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"insert", m.insert}, {"work off a backlog", m.backlog}, {"insert and work at once", m.both}, {"idle pickup", m.idle},
	} {
		if err := phase.run(ctx); err != nil {
			return n, fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	n.Settings, n.RSSMB = fmt.Sprintf("%s, %d idle pickups", p.Settings(), m.picked), peakMB()
	return n, nil
}

// arguments holds what a job carries: its number, and padding.
type arguments struct {
	Seq int    `json:"seq"`
	Pad string `json:"pad"`
}

// argumentsOf returns the arguments of job seq, Payload bytes long as JSON.
func argumentsOf(seq int) arguments {
	a := arguments{Seq: seq}
	empty, _ := json.Marshal(a) // a number and a string always encode
	a.Pad = strings.Repeat("x", max(0, Payload-len(empty)))
	return a
}
