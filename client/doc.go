// Package client is Carillon's HTTP API for Go programs. It declares the types
// that travel between Carillon and its callers: requests, answers and problems,
// and the worker protocol. They are declared once, here; the server encodes the
// same types that a caller decodes. Client has a method for every call of the API.
//
//	c := client.New([]string{"https://carillon.example"}, key)
//	job, err := c.CreateJob(ctx, client.JobRequest{Name: "hello", …})
//	for e, err := range c.JobExecutions(ctx, job.JobID, client.ExecutionFilter{}) { … }
//
// List… reads one page; the methods named by a plural noun are iterators over all of them, which fetch page by page. A call
// that fails because no server answered, or that is told to come again (429, 503), is retried a few times, with growing
// and varied waits and no sooner than Retry-After, at each server in turn. That is done only where it can do no harm: for
// GET, for PUT, which says what is to be, and for POST, since the client gives every POST an idempotency key and keeps
// it over all tries; see WithIdempotencyKey to choose it. The calls of the worker protocol turn to the next server, but do
// not wait and try again: package worker does, and knows for how long a lease lasts.
//
// The package knows nothing of how the server works and never imports it, and no credential is part of an error.
package client
