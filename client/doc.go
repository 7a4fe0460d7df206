// Package client declares the types that travel between Carillon and its
// callers: requests, answers and problems of the HTTP API, and the worker
// protocol. They are declared once, here; the server encodes the same types
// that a caller decodes. Client speaks the worker protocol over HTTP.
//
// The package knows nothing of how the server works and never imports it.
package client
