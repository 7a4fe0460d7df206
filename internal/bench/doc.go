// Package bench measures Carillon on a user's own machine and database.
//
// A Rig is the product as a server wires it (service, dispatcher, worker pool, upkeep) over one store, with a handler
// that does nothing. Phases are a table: each gets a rig over a fresh, temporary store, loads it and records the
// results in the report. To add one, write a function and a row.
//
// Schedules and Herd are runs of their own: they create recurring jobs straight through the port, add a scheduler to
// the rig, and put a goal beside each number. Fires keeps which instants were owed and which ran. Pages does the same
// for what the dashboard asks the API for: a stock of jobs and executions is made and worked off, and a table of
// pages is asked for over HTTP.
//
// Workflows compares runs of workflows with plain executions in turns, each on a store of its own; runs keeps which
// were begun and when their nodes started.
//
// Speed without truth is worth nothing, so every phase ends with a check: what was accepted must have succeeded in
// the store exactly once, and no handler may have been given an execution twice, unless the store has noted that a
// lease was lost between. The ledger keeps what the check needs.
//
// It never opens a store that it did not make: where a phase lives is the business of the Open that it is given.
package bench
