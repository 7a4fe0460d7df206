// Package worker runs executions: it claims them from a server in batches under leases, runs each in a slot, keeps
// the leases alive with one heartbeat for all, reports the results in batches, and drains when it is told to stop.
//
// A Pool speaks to the server through a Source and runs attempts through an Executor, so the same code serves a
// worker inside the server and one in another process. The flow of one session: register, claim, run, report, and at
// the end release what did not start and leave.
//
// A pool never runs an attempt that it holds no lease for: when its session ends, or when its beats have gone
// unanswered for nearly a lease by its own monotonic clock, everything it runs is stopped. Whether a result counts is
// the server's decision, by the fencing token that goes with it.
package worker
