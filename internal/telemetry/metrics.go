package telemetry

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
)

// The bounds of the histograms, in seconds. Those of delays include 1 and 5, which are promised.
var (
	delayBounds    = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	waitBounds     = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 3600}
	durationBounds = []float64{0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400}
	storeBounds    = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
)

// Metrics holds the metrics that a process counts itself.
type Metrics struct {
	registry *prometheus.Registry
	handler  http.Handler
	scrapes  chan struct{} // those that are being answered

	triggerDelay, queueWait, duration, endToEnd, nodeWait, decisionDelay *histogram

	retries, timeouts, deadLettered, leasesLost, stale, deaths, missed, tracesLost prometheus.Counter

	byStatus          [job.Expired + 1]prometheus.Counter    // executions that ended
	runs              map[workflow.Status]prometheus.Counter // that ended
	limited, requests *prometheus.CounterVec
	denied            *prometheus.CounterVec
	ops               [opCount]opMetrics
}

type opMetrics struct {
	seconds prometheus.Observer
	errors  prometheus.Counter
}

// NewMetrics makes the metrics of a process of a version, all of them 0.
func NewMetrics(version string) *Metrics {
	m := NewProcessMetrics(version)
	histogram := func(name, help string, bounds []float64) *histogram {
		h := newHistogram(name, help, bounds)
		m.registry.MustRegister(h)
		return h
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "carillon_" + name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	m.triggerDelay = histogram("trigger_delay_seconds", "Time from when a scheduled execution could first fire (its scheduled time, or the creation of its job if that came later) until it fired.", delayBounds)
	m.queueWait = histogram("queue_wait_seconds", "Time from when an execution was due until its first attempt started.", waitBounds)
	m.duration = histogram("execution_duration_seconds", "Time from the start of an execution's first attempt until it ended.", durationBounds)
	m.endToEnd = histogram("end_to_end_seconds", "Time from when an execution could first fire until it ended; for missed runs and backfills, from when they fired.", durationBounds)

	m.nodeWait = histogram("workflow_node_wait_seconds", "Time from when a workflow's node, or an item of a map, was ready until its first attempt started.", waitBounds)
	m.decisionDelay = histogram("workflow_decision_delay_seconds", "Time from the end of a workflow's node, or an item of a map, until its run had decided what follows.", delayBounds)

	statuses := m.vec("executions_total", "Executions that ended, by status.", "status")
	for _, s := range job.Statuses() {
		if s.Final() {
			m.byStatus[s] = statuses.WithLabelValues(s.String())
		}
	}
	runs := m.vec("workflow_runs_total", "Workflow runs that ended, by status. A run that was retried counts each time it ends.", "status")
	m.runs = map[workflow.Status]prometheus.Counter{}
	for _, s := range []workflow.Status{workflow.Succeeded, workflow.Failed, workflow.TimedOut, workflow.Cancelled} {
		m.runs[s] = runs.WithLabelValues(s.String())
	}
	m.retries = counter("retries_total", "Failed attempts that will be retried.")
	m.timeouts = counter("timeouts_total", "Attempts that timed out.")
	m.deadLettered = counter("dead_lettered_total", "Executions that became dead letters.")
	m.leasesLost = counter("leases_lost_total", "Leases that expired without a result because their worker stopped responding.")
	m.stale = counter("stale_results_total", "Results that were refused because their lease was lost.")
	m.deaths = counter("worker_deaths_total", "Workers that stopped responding.")
	m.missed = counter("occurrences_missed_total", "Scheduled instants that passed without firing and are not caught up.")
	m.tracesLost = counter("traces_lost_total", "Jobs and executions whose link to the request's trace was dropped because the store did not keep up.")
	m.limited = m.vec("limited_total", "Requests refused, and executions delayed, because of a limit.", "limit")
	for _, l := range limits {
		m.limited.WithLabelValues(l)
	}

	m.denied = m.vec("auth_failures_total", "Requests that failed authentication, by reason.", "reason")
	for _, r := range denials {
		m.denied.WithLabelValues(r)
	}

	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "carillon_store_seconds", Help: "Duration of store calls.", Buckets: storeBounds}, []string{"op"})
	m.registry.MustRegister(seconds)
	errs := m.vec("store_errors_total", "Store calls that failed.", "op")
	for o, name := range opNames {
		m.ops[o] = opMetrics{seconds.WithLabelValues(name), errs.WithLabelValues(name)}
	}
	return m
}

// NewProcessMetrics makes the metrics of a process without a store: of the Go runtime, the process and its HTTP API.
func NewProcessMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "carillon_build_info", Help: "Always 1; the labels name the version."}, []string{"version", "go_version"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.requests = m.vec("http_requests_total", "HTTP requests answered, by route and status code.", "route", "code")
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	m.scrapes = make(chan struct{}, 4)
	return m
}

func (m *Metrics) vec(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "carillon_" + name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

// PartitionsOwned sets a function that each scrape calls for the number of owned partitions.
func (m *Metrics) PartitionsOwned(f func() int) {
	m.gauge("partitions_owned", "Partitions this server owns: it fires their schedules.", f)
}

// BreakersOpen sets a function that each scrape calls for the number of hosts that count as down.
func (m *Metrics) BreakersOpen(f func() int) {
	m.gauge("breakers_open", "Callback hosts whose circuit breaker is open in this process.", f)
}

// Replication is how far the continuous backup of the embedded store has come.
type Replication struct {
	Behind                                            time.Duration
	Waiting                                           int64
	Bytes, Segments, Snapshots, Generations, Failures int64
}

// Replication sets a function that each scrape calls for the state of the continuous backup.
func (m *Metrics) Replication(f func() Replication) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "carillon_replication_behind_seconds", Help: "Age of the moment up to which the continuous backup can restore everything."}, func() float64 { return f().Behind.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "carillon_replication_waiting_bytes", Help: "Changes on the disk that the continuous backup has not stored yet."}, func() float64 { return float64(f().Waiting) }),
	)
	for name, x := range map[string]struct {
		help string
		of   func(Replication) int64
	}{
		"bytes":       {"Bytes that the continuous backup has stored.", func(r Replication) int64 { return r.Bytes }},
		"segments":    {"Sets of changes that the continuous backup has stored.", func(r Replication) int64 { return r.Segments }},
		"snapshots":   {"Snapshots that the continuous backup has stored.", func(r Replication) int64 { return r.Snapshots }},
		"generations": {"How often the continuous backup began anew.", func(r Replication) int64 { return r.Generations }},
		"failures":    {"Attempts to store something that failed.", func(r Replication) int64 { return r.Failures }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "carillon_replication_" + name + "_total", Help: x.help}, func() float64 { return float64(x.of(f())) }))
	}
}

// BackupOverdue sets a function that each scrape calls for how long the embedded store should have been backed up.
func (m *Metrics) BackupOverdue(f func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "carillon_backup_overdue_seconds", Help: "For how long a scheduled backup of the embedded store should have been stored; 0: it was."}, func() float64 { return f().Seconds() }))
}

// CallbacksPutOff sets a function that each scrape calls for the number of postponed calls, by reason. The reasons
// are those that it returns now.
func (m *Metrics) CallbacksPutOff(f func() map[string]int64) {
	for reason := range f() {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "carillon_callbacks_put_off_total", Help: "Callbacks that this process postponed to protect the host: because of its rate limit, its concurrency limit, one tenant's share of that, or because it is down.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 { return float64(f()[reason]) }))
	}
}

// Use is the current usage of a process's workers.
type Use struct {
	Running     int
	Capacity    int
	MemoryLimit int64 // in bytes; 0: unknown
}

var (
	processSlots = gauge("process_slots", "Slots of the workers in this process, busy and free.", "state")
	processLimit = gauge("process_memory_limit_bytes", "Memory this process may use: its cgroup limit or, without one, all memory of the machine. process_resident_memory_bytes is what it uses.")
)

// used reports the usage of a process's workers.
type used struct{ ask func() Use }

func (used) Describe(to chan<- *prometheus.Desc) { to <- processSlots; to <- processLimit }

func (u used) Collect(to chan<- prometheus.Metric) {
	x := u.ask()
	to <- prometheus.MustNewConstMetric(processSlots, prometheus.GaugeValue, float64(x.Running), "busy")
	to <- prometheus.MustNewConstMetric(processSlots, prometheus.GaugeValue, float64(max(0, x.Capacity-x.Running)), "free")
	if x.MemoryLimit > 0 {
		to <- prometheus.MustNewConstMetric(processLimit, prometheus.GaugeValue, float64(x.MemoryLimit))
	}
}

// WorkersUse sets a function that each scrape calls for the usage of the process's workers.
func (m *Metrics) WorkersUse(f func() Use) { m.registry.MustRegister(used{f}) }

// CountsLost sets a function that each scrape calls for the number of dropped counts of tenants and jobs.
func (m *Metrics) CountsLost(f func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "carillon_counts_lost_total", Help: "Events this server could not count for a tenant or a job; time series, calendars and failure counts are too low by this much.",
	}, func() float64 { return float64(f()) }))
}

func (m *Metrics) gauge(name, help string, f func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "carillon_" + name, Help: help}, func() float64 { return float64(f()) }))
}

// Show adds the metrics of the installation.
func (m *Metrics) Show(g *Gauges) { m.registry.MustRegister(g) }

// ServeHTTP answers a scrape, if fewer than four others are in progress.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case m.scrapes <- struct{}{}:
		defer func() { <-m.scrapes }()
		m.handler.ServeHTTP(w, r)
	case <-r.Context().Done():
		http.Error(w, "other scrapes took too long", http.StatusServiceUnavailable)
	}
}

// Registry returns the registry of the metrics.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// statusTexts holds the statuses of responses as texts.
var statusTexts = func() (out [600]string) {
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}()

// Answered counts a response of a route. A nil receiver counts nothing.
func (m *Metrics) Answered(route string, code int) {
	if m == nil {
		return
	}
	if code < 100 || code >= len(statusTexts) {
		code = 0
	}
	m.requests.WithLabelValues(route, statusTexts[code]).Inc()
}

// limits lists the values of limited_total's label: the quotas of tiers by name, and others.
var limits = []string{
	"active_jobs", "executions_per_minute", "executions_burst", "payload_bytes", "max_retries", "shortest_interval_ms", "best_priority", "dead_letters", "notification_rules", "requests_per_second",
	"failed_sign_ins", "unknown_badges", "unproven_requests", "worker_registrations", "worker_sessions", "execution_rate", otherLimit,
}

const otherLimit = "other"

// denials lists the values of auth_failures_total's label.
var denials = []string{"no_credential", "unknown_key", "token", "signed_out", "tenant", "throttled"}

// AuthFailed counts a request whose caller could not be authenticated. A nil receiver counts nothing.
func (m *Metrics) AuthFailed(reason string) {
	if m == nil || m.denied == nil || !slices.Contains(denials, reason) {
		return
	}
	m.denied.WithLabelValues(reason).Inc()
}

// Limited counts a request that was refused because of a limit. A nil receiver counts nothing.
func (m *Metrics) Limited(limit string) { m.limitedBy(limit, 1) }

func (m *Metrics) limitedBy(limit string, n int) {
	if m == nil || m.limited == nil || n <= 0 {
		return
	}
	for _, known := range limits {
		if limit == known {
			m.limited.WithLabelValues(limit).Add(float64(n))
			return
		}
	}
	m.limited.WithLabelValues(otherLimit).Add(float64(n))
}
