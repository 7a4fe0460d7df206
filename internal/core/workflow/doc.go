// Package workflow holds the rules of workflows: graphs of jobs whose nodes start when their parents have ended.
//
// A Definition is what a user writes. Compile checks it and makes a Graph: nodes by number, their parents and children,
// their expressions and templates. A State is where one run of a graph stands. Begin makes the first one; Advance tells
// it what happened, such as the end of a node's execution, and answers with Decisions: which nodes start, which items of a
// map start, what is cancelled, and how the run ended. Prepare evaluates a node's expressions when it starts. A Resolver
// does both until nothing more follows, and returns the Effects that a store commits.
//
// Pause, Unpause, Cancel, Retry, Skip, Mark, Resize and CastVote are the acts of people on a run; Changes compares two
// states, so a dry run is an act on a clone. Explain says in a sentence why a node stands where it does.
//
// Advance costs as much as the ended node has children, however large the graph is: a node knows how many parents it still
// waits for and which kinds of ends it has seen, never which. The end of a map's item costs the same whatever its width.
//
// The package knows no store, no clock and no randomness: instants, results and errors are handed in. It never starts or
// stops anything itself. A store commits a State together with what caused it, under a condition that the State was still
// the one the decision was made from.
package workflow
