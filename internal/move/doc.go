// Package move copies everything from one store into another with a different engine: jobs with their next instants,
// waiting and running executions, the history, keys and secrets in sealed form.
//
// The target is filled in one transaction, and read back and compared before that is committed: a move is complete or
// has no effect. Nobody may use either store meanwhile. Running executions count as lost with their workers, as after
// a restore: they run again. The package knows rows by the names of tables and columns, in shape.go; it opens
// nothing, and never changes the source.
package move
