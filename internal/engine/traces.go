package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Traces remember which request began what, for those who follow a trace from one to the other. They are kept for a while
// and only where the request is part of a trace: what is lost of them is missing from pictures, and nowhere else.
type Traces interface {
	// KeepTraces keeps where jobs and executions began, in place of what was kept of them before.
	KeepTraces(ctx context.Context, ts []Trace) error
	// Traces finds where jobs and executions of any tenant began, in any order; what is not known is left out.
	Traces(ctx context.Context, ids [][16]byte) ([]Trace, error)
}

// Trace says which request a job or an execution came from.
type Trace struct {
	Tenant tenant.ID
	Of     [16]byte // a job's id, or an execution's
	Parent string   // the request's traceparent, as W3C Trace Context has it
	At     time.Time
}

// TracesKept sets how long they are kept.
const TracesKept = 7 * 24 * time.Hour
