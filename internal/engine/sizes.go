package engine

// Sizes describes the size of a store.
type Sizes struct {
	Bytes  int64 // of all
	Free   int64 // of these, unused but reserved; 0 if that is not known
	Tables []TableSize
}

// TableSize is the size of a table.
type TableSize struct {
	Name  string
	Rows  Total // at least, or about, this number if it is an estimate
	Bytes int64 // with its indexes; -1: not known
}

// SizedTables lists the tables that grow: definitions, what waits and runs, history, and the audit log.
var SizedTables = [...]string{"jobs", "schedules", "live", "executions", "attempts", "events", "logs", "dead_letters", "job_revisions", "audit"}
