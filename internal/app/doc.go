// Package app wires the product by role: it opens the store, builds the parts that the process's roles need, starts
// them in order and stops them in reverse.
//
// The parts do not know each other: they meet in the store, and hints between them pass through here. app holds no
// rules. To learn what runs in a process, read Run.
package app

// Version is the version of this binary; the build sets it.
var Version = "dev"
