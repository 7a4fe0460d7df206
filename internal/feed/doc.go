// Package feed sees what goes through a server's store: it counts it, minute by minute, and tells it to those who watch.
//
// Store wraps the port. A Counter keeps what was started and what ended in memory, and writes it down every few seconds:
// for each minute what this server has counted in it so far, so that the same may be written again. What a process that
// is killed had not written is not counted.
//
// A Hub holds the last changes of each tenant that somebody watches, and of no other. Servers that share a store tell each
// other which tenants they watch, and what changes in those. Who is too slow, or comes back too late, is told that
// something was missed, and reads again what it shows. While nobody watches, a change costs one look at a flag.
//
// It never changes what a call does or answers, and never fails one.
package feed
