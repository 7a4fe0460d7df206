// Package move takes everything that one store holds into another of a
// different engine: jobs with their next instants, what waits and what ran, the
// history, keys and secrets as they are sealed.
//
// The target is filled in one transaction, and read back and compared before that
// is committed: a move is whole or has not been. Nobody may use either store
// meanwhile. What ran counts as lost with its worker, as after a restore: it runs
// again. The package knows rows by the names of tables and columns, in shape.go; it opens
// nothing, and never changes the source.
package move
