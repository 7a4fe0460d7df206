// Package sqlite is the store over one SQLite file, for one process.
//
// The tables are those of package postgres: an execution that has not finished
// is one row of live, its column lease is the authority over it, and every
// statement that changes it names the token in its WHERE. A finish moves the
// row into executions; what a dead session held is found through the directory
// (leases). Every end is tallied in job_stats (history.go), but for a one-off
// job's own fire, which Stats reads from executions; a failure is a row of
// dead_letters, too. What a session is to do with what it holds waits in orders
// for its next beat, and Force finds there what was asked to stop (cancel.go).
// What neither an execution's row nor its attempts tell is kept in events
// (events.go). What runs is found through the directory, too (overrun.go).
// A job's update takes back what its schedule has staged (update.go), and what
// an overlap policy or a catch-up leaves out goes straight into history (overlap.go).
// Rows are written one by one with prepared statements, all of a call in one
// transaction.
//
// There is one connection that writes and a few that read (conn.go). Whoever
// waits for one gives up when its context ends; a transaction is never left
// open, and what was committed is never reported as failed. The file is locked
// for the life of a Store, by this process and against others (lock_*.go), so
// Open knows that the sessions it finds are dead: it ends them, and the first
// Reap returns what they held. Files that are removed or replaced meanwhile are
// noticed within a second (watch.go), and nothing more is acknowledged.
//
// The clock is the one of Config. The package decides no policy, logs nothing
// and measures nothing; errors of the driver are translated here (errors.go).
package sqlite
