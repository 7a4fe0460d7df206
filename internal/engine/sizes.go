package engine

// Sizes describes the size of a store.
type Sizes struct {
	Bytes  int64 // of all
	Free   int64 // of these, what is not used and will be; 0 if that is not known
	Tables []TableSize
}

// TableSize is the size of a table.
type TableSize struct {
	Name  string
	Rows  Total // the number is at least this one, or about it, where it is an estimate
	Bytes int64 // with its indexes; -1: not known
}

// SizedTables are the tables that grow: definitions, what waits and runs, history, and who changed what.
var SizedTables = [...]string{"jobs", "schedules", "live", "executions", "attempts", "events", "logs", "dead_letters", "job_revisions", "audit"}
