package engine

import "context"

// Rows that move from one engine to another have the first one's stored types: an int64, float64, string, []byte or
// nil for each column. Instants are microseconds since 1970, ids 16 bytes, booleans 0 and 1, lists of texts a JSON
// array, lists of ids their bytes one after the other.

// RowTable is a table, as an engine knows it.
type RowTable struct {
	Name    string
	Columns []RowColumn
}

// RowColumn is a column of a table.
type RowColumn struct {
	Name   string
	Texts  bool // it holds a list of texts
	Needed bool // a row must say what it is
}

// RowSource is a store whose rows can be read in their stored form.
type RowSource interface {
	RowTables(ctx context.Context) ([]RowTable, error)
	CountRows(ctx context.Context, table string) (int64, error)
	// ReadRows calls f with all rows of a table, up to size at a time.
	ReadRows(ctx context.Context, table string, columns []string, size int, f func(rows [][]any) error) error
}

// RowSink is a store that can be filled with rows.
type RowSink interface {
	// Fill calls f, and commits what it puts if it returns nil, else nothing; nobody sees any of it before.
	// ErrConflict if the store is not empty, or in use.
	Fill(ctx context.Context, f func(RowTarget) error) error
}

// RowTarget is a store that is being filled.
type RowTarget interface {
	RowSource
	// PutRows adds rows to a table.
	PutRows(ctx context.Context, table string, columns []string, rows [][]any) error
	// BeginEpoch makes the store draw its tokens from an epoch on.
	BeginEpoch(ctx context.Context, epoch int64) error
}
