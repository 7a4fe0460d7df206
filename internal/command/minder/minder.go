// Package minder is the process that stands between a worker and a command:
// the worker starts its own binary again under another name, and that process
// starts the command, passes signals on, and sees to it that nothing of the
// command outlives it.
//
//	worker ──spec, 'T', end of file──▶ minder ──▶ becomes the command
//	       ◀──────── End ─────────────          (limits, user, no new privileges, no open files, then exec)
//
// The minder is the parent that orphans of the command fall to (a subreaper),
// and, where the worker is root, the first process of a namespace of process
// ids, whose end is the end of all in it. When the pipe from the worker ends,
// because it closed it or because it was killed, the minder kills everything.
//
// It is its own package, with few imports, so that it takes over before the
// rest of the binary is made ready. It never reads settings or speaks to a
// server.
package minder

// Spec is what a minder is told to run.
type Spec struct {
	Args  []string // the program and its arguments; a name without a slash is looked for in Env's PATH
	Env   []string
	Dir   string // the working folder
	User  *User  // nil: as the worker
	Limit Limit

	Namespace bool // the minder is the first process of a namespace
	Parent    int  // of the process that becomes the command; set by the minder
}

// User is whom a command runs as.
type User struct{ UID, GID int }

// Limit is what a command may use; 0: as much as the worker.
type Limit struct {
	Files     uint64 // open at once
	Processes uint64 // of the user, on this machine
	FileBytes uint64 // of each file it writes
	CPU       uint64 // seconds, of each process
	Memory    uint64 // bytes of address space, of each process
}

// End is how a command ended.
type End struct {
	Exit    int
	Signal  int    // that ended it; 0: none
	Failed  string // why it did not start; empty: it did
	Program bool   // it did not start because the program is not there or cannot be run
	Left    int    // how many processes it left behind, which were killed
}
