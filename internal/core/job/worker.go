package job

import (
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Worker is a process, or a pool in one, that claims executions under one session.
type Worker struct {
	ID        WorkerID
	Tenant    tenant.ID // empty: it serves every tenant
	Secret    [32]byte  // hash of the proof of its session; zero: it cannot be used over the network
	Host      string
	Version   string
	Labels    []string
	Queues    []string // none: every queue
	Targets   []string
	Kinds     []string // of handlers, for the target worker
	Capacity  int
	StartedAt time.Time

	Beat                // as of its last one
	BeatAt    time.Time // by the store's clock
	ExpiresAt time.Time
	Ended     bool // its session has ended
	Cordoned  bool // it is given no more work until it is uncordoned
}

// Beat holds what a worker reports about itself.
type Beat struct {
	Running   int
	Completed int64 // since it registered
	Failed    int64
	Draining  bool
	Memory    Memory
}

// Memory is the memory of a worker's process, in bytes; 0: unknown.
type Memory struct {
	Used  int64 // resident
	Limit int64 // the limit of its cgroup, or else all memory of the machine
}

// MaxMemory is the maximum that a worker may report, so that sums stay within 64 bits.
const MaxMemory = 1 << 46

// WorkerState is the state of a worker.
type WorkerState string

// The states of a worker.
const (
	WorkerActive   WorkerState = "ACTIVE"
	WorkerIdle     WorkerState = "IDLE"
	WorkerBusy     WorkerState = "BUSY"
	WorkerDraining WorkerState = "DRAINING"
	WorkerCordoned WorkerState = "CORDONED"
	WorkerDead     WorkerState = "DEAD"
)

// State returns the state of the worker at an instant of the store's clock.
func (w Worker) State(now time.Time) WorkerState {
	switch {
	case w.Ended || !now.Before(w.ExpiresAt):
		return WorkerDead
	case w.Draining:
		return WorkerDraining
	case w.Cordoned:
		return WorkerCordoned
	case w.Running == 0:
		return WorkerIdle
	case w.Running >= w.Capacity:
		return WorkerBusy
	}
	return WorkerActive
}

// Takes reports whether a worker in this state is given executions.
func (s WorkerState) Takes() bool {
	return s == WorkerActive || s == WorkerIdle || s == WorkerBusy
}

// OrderKind is what a worker must do with an execution that it holds.
type OrderKind uint8

// The orders. Their numbers are stored; never renumber them.
const (
	OrderCancel OrderKind = 1 // stop it and say how it ended
	OrderLost   OrderKind = 2 // drop it: it is no longer yours
)

// Order is one instruction in the response to a heartbeat.
type Order struct {
	Worker WorkerID
	Lease
	Kind OrderKind
}
