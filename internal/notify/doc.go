// Package notify looks for events that tenants are to be notified of, and sends the notifications.
//
//	history ──what did not go well──┐
//	live ─────what is late──────────┤
//	jobs ─────what nobody fires─────┼─▶ rules ──▶ a job that posts the notice
//	statistics ──what is well again─┘
//
// Events are found by looking at the store, from where the last look ended and
// a little before that, since a transaction may commit later than it says: what
// is found twice has the same idempotency key, so that one notice is sent. A
// server that dies between two steps repeats them.
//
// A notice is an IMMEDIATE job of the tenant's: signed, tried again, and kept
// in history as any other. Nothing is told of such jobs themselves.
//
// The package never decides what a rule is about (see core/notice) and opens no
// connection.
//
// It also tells, once each, of approvals that runs of workflows have begun to wait for. A node that is defined inside a workflow is told of
// by its run.
package notify
