// Package telemetry makes what a process does visible from outside: numbers
// for Prometheus, spans for OpenTelemetry, and lines of a log.
//
//	Store     wraps the port: what goes through it is counted, timed and, where it is traced, told as spans
//	Gauges    asks, at a scrape, how much there is
//	Tracer    follows an execution from the request that began it to its target; nil where there is no tracing
//	NewLog    writes lines that no tenant's text can break
//
// Numbers have no label whose values users choose: no job, no tenant, no URL.
// An execution is a trace of its own, whose id is the execution's; it is
// linked to the request that began it, and is no part of that one's trace,
// since hours may lie between.
//
// The package never changes what a call does or answers, never fails one, and
// never waits for who receives what it tells.
package telemetry
