// Package command runs the commands of jobs: a program and its arguments, or
// what an artifact holds, as a process of its own.
//
//	Attempt ─▶ scratch folder ─▶ artifact unpacked ─▶ minder ─▶ the program
//	        ◀─ Ended: exit code or signal, result, the end of stderr ◀─ output, line by line, to the log
//
// A command gets a folder of its own that is removed with it, a clean environment, the payload on its standard input,
// limits, and none of the worker's privileges. The runner finds out by trying what else can confine it (walls:
// another user, Landlock, seccomp, namespaces, a control group); Open reports what is missing. When its context ends
// it is asked to end (TERM to its process group) and soon after killed with everything it has started. Package minder
// has the part that runs inside the new process, on Linux; elsewhere a command is confined to its process group only.
//
// The package never passes a command line to a shell, and never decides whether a failure is retried.
package command
