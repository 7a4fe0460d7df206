// Package sim runs a whole installation in one process, on simulated time, and breaks it: servers with all their
// roles, workers beside and inside them, and clients, over one store.
//
// What runs is the product itself: dispatch, ownership, service, scheduler, upkeep, the worker pool and the SQLite
// engine, which several servers share through enginetest.Shared; only the network, the targets and the callers are
// made up. A seed says who asks for what and when, how each attempt behaves, and which faults come: servers and
// workers that are killed or stand still, servers whose partitions others take, calls that are lost, late or
// repeated, and a store that fails before or after its commits, and whose clock is not that of the servers. Then the
// faults end, everything must come to its end within a bounded time, and package check judges the history.
//
// Run must be called in a bubble of testing/synctest: an hour there costs what is done in it. The script of a seed is
// always the same; the order in which goroutines run at one instant, the ids that are drawn, and with them which of
// the store's calls fail, are not, so that a seed is a family of runs: a failure is replayed by running its seed some
// more times.
package sim
