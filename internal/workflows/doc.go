// Package workflows runs workflows: it begins runs, decides what follows when a node has ended, a wait is over or a person acts, and
// has the store commit each decision.
//
// A Runner leases the executions of workflow jobs as a worker does, stores a run for each and parks the execution until the run ends.
// Whatever ends a node leaves a mark in the store, in the same commit. A hint tells the runner of the mark; if the hint is lost, a sweep
// finds the mark a second later. Any server may take any mark: the store locks the run while core/workflow decides.
//
// The runner also fires jobs that depend on other jobs, without a workflow: the ends of these leave marks in the same way.
//
// The package keeps no state that it could not lose. It does not know HTTP, and it runs no node itself: nodes are executions like any
// other.
package workflows
