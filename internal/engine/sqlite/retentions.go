package sqlite

const (
	// keptSQL leaves out finished executions that their job no longer keeps, by a retention of its own. Those of nodes
	// (7) are kept as long as their run.
	keptSQL = `(v.trigger = 7 OR NOT EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = v.tenant AND k.job = v.job
		AND v.finished_at < ? - CASE WHEN v.status IN (11, 12, 15) THEN k.failed_days ELSE k.days END * 86400000000))`
	deadKeptSQL = `(NOT EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = d.tenant AND k.job = d.job AND d.at < ? - k.failed_days * 86400000000)
		OR EXISTS (SELECT 1 FROM run_members m WHERE m.execution = d.execution))`
)
