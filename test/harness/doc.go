// Package harness runs the built binary for tests: processes of carillon serve, dev and worker, each with its own
// port, folder and log; signals to them; the API as a client sees it; a sink that records every callback; and a link
// to a server or a database that a test can disturb.
//
// Main builds the binary, and a test launches processes of it, which end with the test. What a process printed is
// shown when its test fails, and kept in a file.
//
// It waits by looking, never by sleeping for as long as something should take, and it never looks into a process:
// what tests know of one is what it answers, prints, writes to the database and calls.
package harness
