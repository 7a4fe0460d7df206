// Package feed observes the calls to a server's store: it counts them, minute by minute, and reports changes to
// watchers.
//
// Store wraps the port. A Counter counts starts and ends in memory, and stores the counts every few seconds: for each
// minute the server's total so far, so that writing it again is safe. Counts that a killed process had not written
// are lost.
//
// A Hub keeps the last changes of each watched tenant, and of no other. Servers that share a store tell each other
// which tenants they watch, and what changes in those. A watcher that is too slow, or comes back too late, is told
// that something was missed, and reads everything again. While nobody watches, a change costs one check of a flag.
//
// It never changes what a call does or answers, and never fails one.
package feed
