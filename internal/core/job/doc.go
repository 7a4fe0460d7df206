// Package job holds the rules of jobs and executions.
//
// A Job is a definition: what to run, when, and how failures are treated. An Execution is one firing of it; an
// Attempt is one try at an execution by one worker under one Lease, whose fencing token grows with every lease. An
// attempt ends in an Outcome, and Decide returns what follows: done, retried at an instant, or failed for good. The
// states an execution may take, and the moves between them, are one table (status.go).
//
// Everything here is a pure function of its arguments: no I/O, no goroutines, no clocks, no randomness. Stores apply
// what is decided here under a guard.
package job
