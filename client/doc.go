// Package client is Carillon's HTTP API for Go programs. It declares the types
// that travel between Carillon and its callers: requests, answers and problems,
// and the worker protocol. They are declared once, here; the server encodes the
// same types that a caller decodes. Client has a method for every call of the API.
//
//	c := client.New([]string{"https://carillon.example"}, key)
//	job, err := c.CreateJob(ctx, client.JobRequest{Name: "hello", …})
//	for e, err := range c.JobExecutions(ctx, job.JobID, client.ExecutionFilter{}) { … }
//
// List… reads one page; the methods named by a plural noun are iterators over all of them, which fetch page by page.
//
// A call that no server answered, or that was answered with 429 or 503, is retried a few times at each server in
// turn, with exponential backoff and jitter, and no sooner than Retry-After. Only requests that are safe to repeat
// are retried: GET, PUT, and POST, to which the client adds an idempotency key that it keeps over all tries; see
// WithIdempotencyKey to choose it. The calls of the worker protocol turn to the next server, but do not wait and try
// again: package worker does, and knows for how long a lease lasts.
//
// The package knows nothing of how the server works and never imports it, and no credential is part of an error.
package client
