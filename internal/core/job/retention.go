package job

// EndsWithHistory reports whether a job goes with the last of its history: a one-off job, which can only be over then,
// and a deleted one. A job that somebody may trigger again stays, and so does that of a workflow's inline node, which
// goes with its workflow. A one-off job with a key stays, too: it is what keeps a file that is applied again from
// running the job a second time.
func EndsWithHistory(s State, t ScheduleType, keyed bool) bool {
	return s == Deleted || s != Inline && t.OneOff() && !keyed
}
