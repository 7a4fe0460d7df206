// Package service is everything a user can ask for, one method each:
// authorise, check, decide with core, and one store call.
//
// A method takes the principal that asks, never a tenant from the request, and
// answers in core types. Errors are the store's sentinels, job.Invalids for
// what is wrong with a request, and the types in errors.go where a person
// needs facts. The package knows no HTTP and no SQL; executions it creates are
// hinted to whoever leases them, and a lost hint is harmless.
package service
