// Package check judges histories: the requests and responses of clients, the commits of the store, the arrivals at
// targets, and the final state.
//
// A recorder appends events to a History, in the order in which they happened; each check reads it once and answers
// with violations, each with the few events that prove it. A check knows nothing of how the events came about, so the
// same ones judge a simulation, a run of processes, or a file.
//
// The checks follow the promise: what was acknowledged is there, and what was refused is not (Durability, Answers);
// an instant of a job fires once (Uniqueness, Completeness); an execution is held by one worker at a time, under
// growing tokens, and a stale one changes nothing (Exclusion, Fencing); it reaches its target again only for a
// recorded reason (Arrivals); it moves as the state machine allows and ends once (Moves, Terminal, Deletion); and it
// does end (Liveness). No more of a group run at once than their jobs allow (Concurrency), nor of a tenant or a queue
// (Quotas, where one server runs at a time); a unique key is one execution's (Keys); what expired had not started
// (Expiry). A job that depends on others fires once for each complete set of their ends, and no end is lost (Edges).
// Limit is for whatever may only be held so many times at once.
package check
