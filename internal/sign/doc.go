// Package sign authenticates callbacks to their targets, and targets that complete executions.
//
//	delivery ──▶ Step ─┬─ Secrets   what the tenant's callbacks are signed with, in memory for a few seconds
//	                  └─ Tokens    what the target completes the execution with, later
//
// Callbacks carry Standard Webhooks' headers: webhook-id (the execution's id, the same on every attempt),
// webhook-timestamp and, for each secret of the tenant that is in use, a signature: HMAC-SHA256 over
// id.timestamp.body. They are made here, on the server, so that no secret ever reaches a worker.
//
// A callback token is an HMAC over tenant, execution and fencing token under a key that the servers of an
// installation share. It needs no table: the store checks whether its lease still holds.
//
// The package never logs a secret or a token, and never sends anything.
package sign
