// Package telemetry makes the work of a process visible: metrics for Prometheus, spans for OpenTelemetry, and log
// lines.
//
//	Store     wraps the port: what goes through it is counted, timed and, where it is traced, told as spans
//	Gauges    asks, at a scrape, how much there is
//	Tracer    follows an execution from the request that began it to its target; nil where there is no tracing
//	NewLog    writes lines that no tenant's text can break
//
// Numbers have no label whose values users choose: no job, no tenant, no URL. Each execution is a separate trace,
// whose id is the execution's; it is linked to the request that began it, but not part of that trace, since hours may
// pass in between.
//
// The package never changes what a call does or answers, never fails one, and never waits for who receives what it
// tells.
package telemetry
