package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Bands are the bands of priorities that queue_depth tells apart: 1 to 3, 4 to 7, 8 to 10.
var Bands = [...]string{"high", "normal", "low"}

// Picture counts what there is in the whole installation, at an instant.
type Picture struct {
	engine.Census
	Now              time.Time
	Pending, Running [len(Bands)]int // by band
	Paused           int             // that wait in paused queues
	Oldest           time.Time       // when what has waited the longest was due; zero: nothing waits
	DesiredWorkers   int
	Archive          time.Duration // by how much history is late to move on
	Archived         int64         // executions that have moved, since the beginning
	ArchivedBytes    int64         // of the files that have them
}

const (
	pictureLife  = 2 * time.Second // for which a picture, or that there is none, is shown again
	pictureShare = 10              // and for so many times as long as it took
	pictureTime  = 5 * time.Second // that taking one may take
)

// Gauges shows a picture at each scrape. Where none can be taken it shows nothing, which those who ask for it see.
type Gauges struct {
	take func(context.Context) (Picture, error)

	mu     sync.Mutex
	last   Picture       // guarded by mu
	ok     bool          // guarded by mu: there is a last one
	until  time.Time     // guarded by mu: for which that is shown
	taking chan struct{} // guarded by mu: closed when the one is taken that is being taken; nil: none is
}

// NewGauges makes gauges of what take says.
func NewGauges(take func(context.Context) (Picture, error)) *Gauges { return &Gauges{take: take} }

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("carillon_"+name, help, labels, nil)
}

var (
	queueDepth     = gauge("queue_depth", "Executions that are due and wait for a worker (pending) or run (running), by priority band: 1 to 3 high, 4 to 7 normal, 8 to 10 low.", "state", "band")
	queuePaused    = gauge("queue_paused", "Executions that are due and wait because their queue is paused. Not included in queue_depth.")
	oldestPending  = gauge("oldest_pending_seconds", "Age of the execution that has waited longest, in queues that are not paused.")
	overdueJobs    = gauge("overdue_jobs", "Jobs that should have fired more than 5 s ago and have not.")
	deadLetters    = gauge("dead_letters", "Dead letters that wait to be redriven or discarded.")
	oldestDead     = gauge("oldest_dead_letter_seconds", "Age of the oldest dead letter.")
	workers        = gauge("workers", "Workers that take executions (active), that finish what they have (draining), and whose sessions ended in the last hour (dead).", "state")
	workerSlots    = gauge("worker_slots", "Slots of active workers (busy and free) and of draining workers, as of their last heartbeats.", "state")
	workerMemory   = gauge("worker_memory_bytes", "Resident memory of the live workers that report it, as of their last heartbeats. Two workers in one process each report all of it.")
	workerMemoryOf = gauge("worker_memory_max_ratio", "Memory use of the worker closest to its limit, as a share of that limit (1 is all of it), as of the last heartbeats.")
	unowned        = gauge("partitions_unowned", "Partitions that no server owns: their schedules do not fire.")
	archiveLag     = gauge("archive_lag_seconds", "How long the oldest finished execution is overdue for archiving.")
	historyBytes   = gauge("history_bytes", "Size of the history, by storage tier.", "tier")
	historyWritten = gauge("history_written_total", "Finished executions that were moved to the archive, by all servers since the beginning.")
	runsInFlight   = gauge("workflow_runs_in_flight", "Workflow runs that have begun and not ended, paused ones included.")
	approvals      = gauge("workflow_approvals_waiting", "Approvals that workflow runs wait for.")
	oldestApproval = gauge("workflow_oldest_approval_seconds", "How long the oldest open approval has waited.")
	undecided      = gauge("workflow_oldest_undecided_seconds", "How long the oldest event (a node that ended, a wait that is over) has waited for its workflow run to act on it.")
	desiredWorkers = gauge("desired_workers", "Workers needed for the load: a tenth of the pending executions.")
)

// Describe lists the gauges.
func (g *Gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueDepth, queuePaused, oldestPending, overdueJobs, deadLetters, oldestDead, workers, workerSlots, workerMemory, workerMemoryOf, unowned, archiveLag, historyBytes, historyWritten, runsInFlight, approvals, oldestApproval, undecided, desiredWorkers} {
		to <- d
	}
}

// Collect tells them.
func (g *Gauges) Collect(to chan<- prometheus.Metric) {
	p, ok := g.picture()
	if !ok {
		return
	}
	tell := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for i, band := range Bands {
		tell(queueDepth, float64(p.Pending[i]), "pending", band)
		tell(queueDepth, float64(p.Running[i]), "running", band)
	}
	tell(queuePaused, float64(p.Paused))
	tell(oldestPending, since(p.Oldest, p.Now))
	tell(overdueJobs, float64(p.Overdue.Count))
	tell(deadLetters, float64(p.DeadLetters.Count))
	tell(oldestDead, since(p.OldestDead, p.Now))
	tell(workers, float64(p.Workers), "active")
	tell(workers, float64(p.Draining), "draining")
	tell(workers, float64(p.Dead), "dead")
	tell(workerSlots, float64(p.Busy), "busy")
	tell(workerSlots, float64(max(0, p.Slots-p.Busy)), "free")
	tell(workerSlots, float64(p.DrainingSlots), "draining")
	if p.Memory > 0 {
		tell(workerMemory, float64(p.Memory))
	}
	if p.MemoryShare > 0 {
		tell(workerMemoryOf, p.MemoryShare)
	}
	tell(unowned, float64(p.Unscheduled))
	tell(archiveLag, p.Archive.Seconds())
	tell(historyBytes, float64(p.HistoryBytes), "hot")
	tell(historyBytes, float64(p.ArchivedBytes), "cold")
	to <- prometheus.MustNewConstMetric(historyWritten, prometheus.CounterValue, float64(p.Archived))
	tell(runsInFlight, float64(p.Runs.Count))
	tell(approvals, float64(p.Approvals.Count))
	tell(oldestApproval, since(p.OldestWaits, p.Now))
	tell(undecided, since(p.Undecided, p.Now))
	tell(desiredWorkers, float64(p.DesiredWorkers))
}

// picture is the last picture, or a new one where that is old. Scrapes that come at once wait for the same one, and none waits
// for longer than one may take.
func (g *Gauges) picture() (Picture, bool) {
	g.mu.Lock()
	if time.Now().Before(g.until) {
		defer g.mu.Unlock()
		return g.last, g.ok
	}
	if g.taking == nil {
		g.taking = make(chan struct{})
		go g.retake(g.taking)
	}
	taken := g.taking
	g.mu.Unlock()
	late := time.NewTimer(pictureTime)
	defer late.Stop()
	select {
	case <-taken:
	case <-late.C:
		return Picture{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last, g.ok
}

// retake takes a picture, and remembers also that there is none.
func (g *Gauges) retake(taken chan struct{}) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), pictureTime)
	defer cancel()
	p, err := g.take(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.ok, g.taking = p, err == nil, nil
	g.until = time.Now().Add(pictureLife)
	if g.ok {
		g.until = began.Add(max(pictureLife, pictureShare*time.Since(began)))
	}
	close(taken)
}

// since returns how long ago an instant was, in seconds; 0 for none.
func since(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at)).Seconds()
}
