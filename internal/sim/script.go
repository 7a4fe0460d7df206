package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
)

// The times of a run.
const (
	chaos    = 20 * time.Second       // how long there are faults
	within   = 5 * time.Minute        // after them, all must have ended
	lease    = 6 * time.Second        // of a worker's session
	grace    = 4 * time.Second        // of a cancel
	ahead    = 3 * time.Second        // how early executions are staged
	poll     = 700 * time.Millisecond // of a dispatcher
	poison   = 4                      // workers that an execution may lose
	owned    = 3 * time.Second        // how long a server may fail to attend before it is deposed
	patience = 3 * time.Second        // of a client's call
	learn    = 14 * time.Second       // until servers have learned of a pause, and leases of one that was cut off have arrived
	hearing  = 8 * lease              // until a worker has begun what it was given, or lost it
)

// script is everything that a seed determines.
type script struct {
	seed    uint64
	skew    time.Duration // of the store's clock
	servers int
	crowded bool        // most of what clients request is of one group
	alone   bool        // there is one server, and its store is its own
	bare    bool        // no server has workers of its own
	tight   bool        // the tenant's limit binds, and nobody changes it
	lasting bool        // any attempt may take a minute
	remotes int         // workers outside the servers
	limits  []job.Limit // from the beginning
	clients [][]wish
	faults  []fault
	store   enginetest.Faults
	net     netFaults
	scenes  // what only some runs have
}

// wish is a client's request at an instant.
type wish struct {
	at      time.Duration
	kind    wishKind
	def     job.Definition   // of a job to be made
	lim     job.Limit        // to be set
	last    time.Duration    // duration of a pause, or of a recurring job
	defs    []job.Definition // of jobs that are created with one call
	version int              // of a job that is changed
	key     string           // the value of the concurrency key in its own payload
	of      int              // the number of the client's earlier job, or execution, that it is about
	gap     time.Duration    // between its tries
	try     int              // how often it tries
	flowWish
	edgeWish
}

type wishKind int

const (
	wishCreate wishKind = iota
	wishTrigger
	wishCancel
	wishRerun
	wishDelete
	wishLimit
	wishPause
	wishBulk
	wishUpdate
	wishPauseJob
	wishResumeJob
	wishFlow
	wishAct
	wishEvent
	wishDepend
)

// fault is something that breaks at an instant, for a time.
type fault struct {
	at   time.Duration
	kind faultKind
	whom int
	last time.Duration
}

type faultKind int

const (
	killServer faultKind = iota
	killWorker
	stopWorker  // it drains and leaves
	pauseWorker // it stands still
	cutWorker   // it continues, and its messages wait
	cutServer   // it continues, and cannot attend
	stopServer  // it gives up what it owns, and is killed
	slowStore
	faultKinds
)

// netFaults is how often a call between a worker and a server fails, as shares from 0 to 1.
type netFaults struct {
	lostRequest, lostAnswer, repeated, late float64
}

// stream returns the random source of one actor: it is independent of the others.
func stream(seed uint64, actor string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(actor))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// upTo returns a duration below d.
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// write generates the script of a seed.
func write(seed uint64) script {
	r := stream(seed, "script")
	s := script{seed: seed, skew: skewOf(seed), servers: 1 + r.IntN(3), remotes: 1 + r.IntN(3)}
	s.alone = s.servers == 1 && r.IntN(2) == 0
	s.crowded = r.IntN(3) == 0
	if r.IntN(4) == 0 {
		s.limits = append(s.limits, tenantLimit(r), queueLimit(r))
	}
	for c := range 1 + r.IntN(3) {
		s.clients = append(s.clients, wishes(stream(seed, fmt.Sprint("client ", c)), c, s.crowded))
	}
	for range r.IntN(12) {
		s.faults = append(s.faults, fault{at: upTo(r, chaos), kind: faultKind(r.IntN(int(faultKinds))), whom: r.IntN(8), last: time.Second + upTo(r, 3*lease)})
	}
	slices.SortFunc(s.faults, func(a, b fault) int { return int(a.at - b.at) })
	if s.crowded {
		s.clients = append(s.clients, rush(stream(seed, "rush"), len(s.clients), s.faults))
	}
	if p := stream(seed, "pauses"); p.IntN(3) == 0 {
		s.clients = append(s.clients, pauses(p))
	}
	if p := stream(seed, "long"); p.IntN(2) == 0 {
		ws, cuts := longs(p, len(s.clients))
		s.clients = append(s.clients, ws)
		s.faults = append(s.faults, cuts...)
		slices.SortStableFunc(s.faults, func(a, b fault) int { return int(a.at - b.at) })
	}
	s.shape(stream(seed, "shape"))
	s.scene()
	if r.IntN(5) > 0 { // a fifth of all seeds have a store, and a fifth a network, without faults
		s.store = enginetest.Faults{Seed: seed, Before: 0.05 * r.Float64(), After: 0.05 * r.Float64(), Slow: 0.05 * r.Float64(), Delay: upTo(r, 2*time.Second)}
	}
	if r.IntN(5) > 0 {
		s.net = netFaults{lostRequest: 0.05 * r.Float64(), lostAnswer: 0.05 * r.Float64(), repeated: 0.05 * r.Float64(), late: 0.1 * r.Float64()}
	}
	return s
}

// shape generates the special properties of a run: servers without workers, a limit that binds, long attempts.
func (s *script) shape(r *rand.Rand) {
	s.bare = r.IntN(3) == 0
	switch r.IntN(4) {
	case 0:
		s.tight = s.servers > 1
	case 1:
		s.lasting = !s.crowded
	}
	if s.tight {
		s.limits = []job.Limit{{Max: 2 + r.IntN(2)}}
	}
	for c := range s.clients {
		if s.tight {
			s.clients[c] = slices.DeleteFunc(s.clients[c], func(w wish) bool { return w.kind == wishLimit })
		}
		for i := range s.clients[c] {
			if d := &s.clients[c][i].def; s.lasting && s.clients[c][i].kind == wishCreate {
				d.Target.Timeout, d.Target.Stall, d.Target.Total, d.Retry.MaxRetries = time.Minute, 0, 0, min(d.Retry.MaxRetries, 1)
			}
		}
	}
}

// wishes generates a client's requests; in a crowd most of them are of one group.
func wishes(r *rand.Rand, client int, crowded bool) []wish {
	var out []wish
	jobs, executions := 0, 0
	for n := range 4 + r.IntN(12) {
		w := wish{at: upTo(r, chaos), gap: 100*time.Millisecond + upTo(r, time.Second), try: 1 + r.IntN(4)}
		k := r.IntN(21)
		w.key = groupValue(r, crowded)
		switch {
		case jobs == 0 || k < 9:
			w.kind, w.def = wishCreate, definition(r, fmt.Sprintf("c%d-j%d", client, n), crowded)
			jobs++
			executions++
		case k < 13:
			w.kind, w.of = wishTrigger, r.IntN(jobs)
			executions++
		case k < 16:
			w.kind, w.of = wishCancel, r.IntN(executions)
		case k < 18:
			w.kind, w.of = wishRerun, r.IntN(executions)
			executions++
		case k < 20:
			w.kind, w.of = wishDelete, r.IntN(jobs)
		default:
			w.kind, w.lim = wishLimit, queueLimit(r)
			if r.IntN(3) == 0 {
				w.lim = tenantLimit(r)
			}
		}
		out = append(out, w)
	}
	// They come in the order in which they were generated, so that what they are about may exist.
	ats := make([]time.Duration, len(out))
	for i, w := range out {
		ats[i] = w.at
	}
	slices.Sort(ats)
	for i := range out {
		out[i].at = ats[i]
	}
	return out
}

// rush generates a client's requests for when a server is cut off: many of one group, in no order of rank, so that
// the server that takes its partitions hands out other executions than it is about to.
func rush(r *rand.Rand, client int, faults []fault) []wish {
	var out []wish
	for _, f := range faults {
		for range 6 {
			if f.kind != cutServer {
				continue
			}
			d := definition(r, fmt.Sprintf("c%d-j%d", client, len(out)), true)
			d.Schedule, d.MaxConcurrent = job.Schedule{Type: job.Immediate}, 1
			out = append(out, wish{at: f.at + upTo(r, 8*time.Second), kind: wishCreate, def: d, gap: time.Second, try: 2})
		}
	}
	slices.SortFunc(out, func(a, b wish) int { return int(a.at - b.at) })
	return out
}

// pauses reports whether anybody pauses a queue.
func (s *script) pauses() bool {
	return slices.ContainsFunc(s.clients, func(ws []wish) bool {
		return slices.ContainsFunc(ws, func(w wish) bool { return w.kind == wishPause && w.last > learn })
	})
}

// pauses generates the pauses of the slow queue: temporary or permanent.
func pauses(r *rand.Rand) []wish {
	var out []wish
	for range 1 + r.IntN(4) {
		w := wish{at: upTo(r, chaos), kind: wishPause, gap: 100*time.Millisecond + upTo(r, time.Second), try: 1 + r.IntN(4)}
		if r.IntN(3) > 0 {
			w.last = time.Second + upTo(r, 2*learn)
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b wish) int { return int(a.at - b.at) })
	return out
}

func definition(r *rand.Rand, name string, crowded bool) job.Definition {
	d := job.Definition{
		Name: name, Schedule: job.Schedule{Type: job.Immediate}, Priority: 1 + r.IntN(10), Queue: "default",
		Target: job.Target{Kind: job.Handler, Handler: kind, Timeout: time.Duration(1+r.IntN(6)) * time.Second},
		Retry: job.RetryPolicy{
			MaxRetries: r.IntN(4), Backoff: []job.Backoff{job.Fixed, job.Linear, job.Exponential}[r.IntN(3)],
			InitialDelay: time.Duration(r.IntN(2000)) * time.Millisecond, MaxDelay: 5 * time.Second,
		},
	}
	if r.IntN(2) == 0 {
		d.Schedule = job.Schedule{Type: job.OneTime} // the instant is chosen when it is sent
	}
	switch r.IntN(10) {
	case 0:
		d.Key = fmt.Sprint("key-", r.IntN(3)) // several want the same
	case 1:
		d.Priority = 99 // which is refused
	}
	limit(r, &d, crowded)
	bound(r, &d)
	return d
}

// tenantLimit and queueLimit generate limits under which everything that a run requests still ends in time.
func tenantLimit(r *rand.Rand) job.Limit { return job.Limit{Max: 3 + r.IntN(4), Rate: rate(r, 4)} }

func queueLimit(r *rand.Rand) job.Limit {
	return job.Limit{Queue: slow, Max: 2 + r.IntN(3), Rate: rate(r, 4)}
}

// rate returns a rate with the given probability, else none.
func rate(r *rand.Rand, once int) job.Rate {
	if r.IntN(once) > 0 {
		return job.Rate{}
	}
	return job.Rate{Count: 1 + r.IntN(5), Per: time.Second, Burst: 1 + r.IntN(3)}
}

// groupValue returns the value of a concurrency key: one of few, so that many share a group.
func groupValue(r *rand.Rand, crowded bool) string {
	if crowded {
		return "a"
	}
	return string(rune('a' + r.IntN(3)))
}

// limit generates how many of a job may run at once.
func limit(r *rand.Rand, d *job.Definition, crowded bool) {
	if r.IntN(3) == 0 {
		d.Queue = slow
	}
	switch k := r.IntN(8); {
	case k < 4 || crowded && k < 7:
		d.ConcurrencyKey, d.Payload = "payload.k", payload("", groupValue(r, crowded))
		d.MaxConcurrent, d.Rate = 1+r.IntN(3), rate(r, 6)
	case k == 4:
		d.MaxConcurrent = 1
	case k == 5:
		d.Rate = rate(r, 1)
	}
	if r.IntN(6) == 0 {
		d.UniqueKey = fmt.Sprint("unique-", r.IntN(3))
	}
}

// bound generates how long a job may wait and run, and whether it is retried.
func bound(r *rand.Rand, d *job.Definition) {
	if r.IntN(6) == 0 {
		d.ExpiresAfter = 500*time.Millisecond + upTo(r, 5*time.Second)
	}
	if r.IntN(4) == 0 {
		d.Target.Stall = time.Duration(1+r.IntN(int(d.Target.Timeout/time.Second))) * time.Second
	}
	if r.IntN(5) == 0 {
		d.Target.Total = time.Duration(2+r.IntN(12)) * time.Second
	}
	if r.IntN(5) == 0 {
		d.AutoRedriveAfter = time.Second + upTo(r, 6*time.Second)
	}
}

// slow is the queue that has limits of its own.
const slow = "slow"

// kind is the handler that all jobs name and all workers have.
const kind = "sim"

// conduct describes how an attempt behaves.
type conduct struct {
	deed deed
	took time.Duration
}

type deed int

const (
	succeed deed = iota
	fail
	failForGood
	panics
	snooze     // until later
	advance    // slowly, and say so
	park       // its target takes it over
	hang       // until it is told to stop
	beSlow     // and stop when told
	ignoreStop // and never stop when told
)

// conductOf returns the conduct of the n-th attempt of an execution of a job under a token.
func conductOf(seed uint64, jobName string, n int, token int64) conduct {
	r := stream(seed, fmt.Sprint(jobName, " attempt ", n))
	quick, slow := upTo(r, 2*time.Second), 2*time.Second+upTo(r, 8*time.Second)
	if strings.HasPrefix(jobName, long) {
		return conduct{beSlow, 2*lease + upTo(r, 2*lease)}
	}
	if strings.HasPrefix(jobName, parked) {
		return conduct{park, quick}
	}
	switch k := r.IntN(100); {
	case k < 50:
		return conduct{succeed, quick}
	case k < 68:
		return conduct{fail, quick}
	case k < 73:
		return conduct{failForGood, quick}
	case k < 78:
		return conduct{panics, quick}
	case k < 81 && n < 8 && token%3 == 0: // not forever, though a snooze does not count as an attempt
		return conduct{succeed, quick}
	case k < 81 && n < 8:
		return conduct{snooze, quick}
	case k < 84:
		return conduct{hang, 0}
	case k < 88:
		return conduct{advance, slow}
	case k < 92:
		return conduct{beSlow, slow}
	default:
		return conduct{ignoreStop, slow}
	}
}
