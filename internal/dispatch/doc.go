// Package dispatch hands executions to workers and takes their results.
//
// A claim waits until there is work for it. One goroutine owns the window, the executions that may be leased next: it
// is filled from the store's lanes and from hints (Offer), merged by rank, and picked from for all waiting claims at
// once, so that they share one commit. What was picked is leased in the store by compare-and-set and handed out only
// then; another server may have been quicker, which costs nothing but the row. Results go straight to the store:
// job.Decide says what follows, the lease's token guards the write.
//
// The window is a cache of hints. It is bounded, it is swept again from the store every second, and losing it loses
// nothing. The package never runs a job and never decides whether a lease holds: the row does.
package dispatch
