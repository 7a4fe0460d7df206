package job

import (
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Class describes what an execution requires of a worker: its target, the kind of handler,
// the queue and the labels, in one canonical text. Executions of one class are
// alike to every worker, so that a lane, which holds one class, can be read as a
// whole or not at all.
type Class string

// DefaultQueue is the queue of a job that names none.
const DefaultQueue = "default"

// Needs is a class split into its parts.
type Needs struct {
	Target TargetKind
	Kind   string // of the handler, for the target worker
	Queue  string
	Labels []string // sorted, each once
}

// classSep separates the parts of a class; no kind, queue or label may contain it.
const classSep = "\x1f"

// Class returns the canonical text of the needs.
func (n Needs) Class() Class {
	if len(n.Labels) == 0 && (n.Queue == DefaultQueue || n.Queue == "") { // most, and quickly
		if n.Kind == "" {
			return Class(n.Target)
		}
		return Class(string(n.Target) + classSep + n.Kind)
	}
	parts := []string{string(n.Target), n.Kind, "", ""}
	if n.Queue != DefaultQueue {
		parts[2] = n.Queue
	}
	parts[3] = strings.Join(slices.Compact(slices.Sorted(slices.Values(n.Labels))), ",")
	return Class(strings.TrimRight(strings.Join(parts, classSep), classSep))
}

// Needs splits the class into its parts.
func (c Class) Needs() Needs {
	parts := strings.Split(string(c), classSep)
	parts = append(parts, make([]string, max(0, 4-len(parts)))...)
	n := Needs{Target: TargetKind(parts[0]), Kind: parts[1], Queue: parts[2]}
	if n.Queue == "" {
		n.Queue = DefaultQueue
	}
	if parts[3] != "" {
		n.Labels = strings.Split(parts[3], ",")
	}
	return n
}

// Class returns what an execution of the job requires of a worker.
func (d *Definition) Class() Class {
	if d.Target.Kind == Workflow {
		return Class(Workflow) // servers run it, and they have neither queues nor labels
	}
	return Needs{Target: d.Target.Kind, Kind: d.Target.Handler, Queue: d.Queue, Labels: d.Labels}.Class()
}

// Serves reports whether the worker may and can run an execution of a tenant's class: it serves the tenant or all
// tenants, and has the target, the handler's kind, the queue (none listed: every queue) and all the labels.
func (w Worker) Serves(t tenant.ID, c Class) bool {
	if w.Tenant != "" && w.Tenant != t {
		return false
	}
	n := c.Needs()
	if !slices.Contains(w.Targets, string(n.Target)) || n.Target == Handler && !slices.Contains(w.Kinds, n.Kind) {
		return false
	}
	if len(w.Queues) > 0 && !slices.Contains(w.Queues, n.Queue) {
		return false
	}
	return !slices.ContainsFunc(n.Labels, func(l string) bool { return !slices.Contains(w.Labels, l) })
}
