// Package minder implements the process between a worker and a command: the worker starts its own binary again under
// another name, and that process starts the command, passes signals on, and makes sure that none of the command's
// processes outlives it.
//
//	worker ──spec, 'T', end of file──▶ minder ──▶ becomes the command
//	       ◀──────── End ─────────────          (limits, user, Landlock, seccomp, no open files, then exec)
//
// The minder adopts orphans of the command (it is a subreaper) and, if the worker may create namespaces, is the first
// process of a PID namespace, whose end kills everything in it. When the pipe from the worker ends, because it closed
// it or because it was killed, the minder kills everything.
//
// It is its own package, with few imports, so that it takes over before the rest of the binary is made ready. It
// never reads settings or speaks to a server.
package minder

// Spec tells a minder what to run.
type Spec struct {
	Args  []string // the program and its arguments; a name without a slash is looked up in Env's PATH
	Env   []string
	Dir   string // the working folder
	User  *User  // nil: as the worker
	Limit Limit

	Files     *Files   // nil: everything the user may access
	NoSockets bool     // refuse Unix sockets, through which other processes of the same user could be reached
	Digests   []string // SHA-256 of the programs that may run, in hex; nil: any

	Namespace bool     // the minder is the first process of its own namespaces
	Proc      bool     // there must be a /proc of the namespace's own processes; only with Namespace
	Mask      []string // paths that are covered in the mount namespace; only with Namespace
	Own       []string // the command's own folders: they stay in place below something covered or hidden
	Network   bool     // the command gets its own network with nothing but loopback; only with Namespace
	Parent    int      // the parent of the process that becomes the command; set by the minder

	Probe []string // run nothing; report which of these paths a command could read or change
}

// User is the user that a command runs as.
type User struct{ UID, GID int }

// Files lists what a command may reach, as Landlock rules. What is not listed is denied.
type Files struct {
	Read   []string // files and folders to read and execute
	Write  []string // files and folders to change, too
	Hidden []string // excluded from Read and Write; real, clean paths
}

// Limit limits the resources of a command; 0 means the worker's own limit.
type Limit struct {
	Files     uint64 // open at once
	Processes uint64 // of the user, on this machine
	FileBytes uint64 // of each file it writes
	CPU       uint64 // seconds, of each process
	Memory    uint64 // bytes of address space, of each process
}

// End describes how a command ended.
type End struct {
	Exit    int
	Signal  int      // that ended it; 0: none
	Failed  string   // why it did not start; empty: it did
	Program bool     // it did not start because the program is missing or may not be run
	Left    int      // how many processes it left behind, which were killed
	Open    []string // of Spec.Probe: what a command could read or change
}
