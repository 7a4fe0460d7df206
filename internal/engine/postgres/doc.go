// Package postgres is the store over PostgreSQL 15 and later.
//
// An execution that has not finished is one row of live; its column lease is
// the authority over it, and every statement that changes it names the token
// in its WHERE. A lease sets it by compare-and-set and writes one row a worker
// session to the directory (leases), a finish deletes the row by its token and
// inserts it into executions, which has one table a day; both are one statement
// and one round trip. What a dead session held is found through the directory.
// The statement that ends an execution tallies it, too (ends.go), but for the own
// fire of a one-off job that came with the job: it has the job's id, by which
// whoever asks for a job's executions finds it, here or there; one that fails for
// good becomes a dead letter there. A cancel of what runs marks its row, for
// whoever ends the lease, and leaves an order, which the worker's next beat finds.
// What neither the row nor the attempts of an execution tell is a row of events,
// written by the statement that makes it happen.
//
// Executions that one bulk creation made may share a row of bundles, in place of one of live
// each, until one of them is treated alone (bundles.go).
//
// A unique key is guarded by an index over live (unique.go). Servers that share
// the database divide its partitions (owners.go); a lease or a fire that names a
// fence locks their rows, and only then anything depends on them. A job's row is
// locked before its executions: by a fire, which moves its next instant and judges
// overlaps in the same statement, by an update (update.go) and by a deletion.
//
// There are two pools of connections: the hot one, for everything between
// creating a job and finishing it, whose plans do not depend on statistics
// (plans.go), and the reading one, for what people look at. Rows travel as
// arrays in the binary form (wire.go), sorted by id wherever rows are locked.
//
// The package decides no policy, logs nothing and measures nothing; it never
// holds a transaction open while its caller thinks. Errors of the driver are
// translated here (errors.go): nobody else sees them by their type.
package postgres
