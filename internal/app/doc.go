// Package app wires the product by role: it opens the store, builds the parts
// that the process's roles need, starts them in order and stops them in
// reverse.
//
// The parts know nothing of each other: they meet in the store, and a hint
// from one to another is passed through here. app holds no rules; a reader who
// wants to know what runs in a process reads Run and nothing else.
package app

// Version is the version of this binary; the build sets it.
var Version = "dev"
