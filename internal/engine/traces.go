package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Traces record the request that a job or an execution came from, to link traces. They are kept for a while and only
// if the request is part of a trace: losing them affects only the display of traces.
type Traces interface {
	// KeepTraces stores the origins of jobs and executions, replacing earlier ones.
	KeepTraces(ctx context.Context, ts []Trace) error
	// Traces finds the origins of jobs and executions of any tenant, in any order; unknown ones are left out.
	Traces(ctx context.Context, ids [][16]byte) ([]Trace, error)
}

// Trace is the request that a job or an execution came from.
type Trace struct {
	Tenant tenant.ID
	Of     [16]byte // a job's id, or an execution's
	Parent string   // the request's traceparent, as W3C Trace Context has it
	At     time.Time
}

// TracesKept is how long they are kept.
const TracesKept = 7 * 24 * time.Hour
