package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
)

// north is the tenant beside the default one.
const north tenant.ID = "north"

// scenes holds what only some runs have.
type scenes struct {
	tenants  []tenant.ID     // the default one, and perhaps another
	whose    []tenant.ID     // by client
	mixed    bool            // some servers have workers, and some do not
	regular  bool            // there are jobs that fire repeatedly
	apart    bool            // schedulers own partitions, and have a loop for what is behind
	encore   time.Duration   // after the last fault: much is asked for; 0: nothing
	outage   fault           // all servers are gone for long; last 0: never
	drift    time.Duration   // by which the clocks of two servers differ
	hostJump fault           // the clock of a server is set; last says by how much
	jump     fault           // likewise, the store's
	forget   bool            // history is kept until it is too old
	hours    time.Duration   // an attempt lasts for so long; 0: none does
	flowing  bool            // there are workflows
	linked   bool            // there are jobs that depend on others
	pages    workflow.Limits // how much of a map starts at once; zero: as in a server
	picky    []picky         // by worker outside the servers: what it takes
}

// picky describes what a worker takes.
type picky struct {
	whose tenant.ID // only this tenant's executions; "": everybody's
	kind  string    // of handlers
}

// scene generates the special properties of a run.
func (s *script) scene() {
	s.tenants = []tenant.ID{tenant.Default}
	r := stream(s.seed, "scenes")
	if r.IntN(3) == 0 {
		s.tenants = append(s.tenants, north)
	}
	s.whose = make([]tenant.ID, len(s.clients))
	for i := range s.whose {
		s.whose[i] = s.tenants[r.IntN(len(s.tenants))]
	}
	s.apart, s.mixed = r.IntN(2) == 0, r.IntN(4) == 0
	if r.IntN(3) == 0 {
		s.drift = upTo(r, time.Hour)
	}
	if r.IntN(8) == 0 {
		s.outage = fault{at: upTo(r, chaos), last: 5*time.Minute + upTo(r, 55*time.Minute)}
	}
	s.clocks(stream(s.seed, "jumps"))
	s.pickies(stream(s.seed, "picky"))
	add := func(ws []wish, whose tenant.ID) {
		s.clients, s.whose = append(s.clients, ws), append(s.whose, whose)
	}
	if r := stream(s.seed, "regular"); r.IntN(2) == 0 || s.outage.last > 0 {
		s.regular = true
		lasts := chaos + upTo(r, 10*time.Second)
		if r.IntN(3) == 0 {
			lasts += 40 * time.Second
		}
		if s.outage.last > 0 {
			lasts += s.outage.last
		}
		add(regulars(r, len(s.clients), lasts), s.tenants[r.IntN(len(s.tenants))])
	}
	if r := stream(s.seed, "bulk"); r.IntN(4) == 0 {
		add(bulks(r, len(s.clients), s.crowded), s.tenants[r.IntN(len(s.tenants))])
	}
	if r := stream(s.seed, "parks"); r.IntN(4) == 0 {
		add(parks(r, len(s.clients)), s.tenants[r.IntN(len(s.tenants))])
	}
	if r := stream(s.seed, "encore"); r.IntN(3) == 0 {
		s.encore = time.Second + upTo(r, lease)
		add(encore(r, len(s.clients), chaos+s.outage.last+s.encore, s.crowded), s.tenants[r.IntN(len(s.tenants))])
	}
	if r := stream(s.seed, "flows"); r.IntN(4) == 0 {
		s.flowing = true
		widths := 1
		if p := stream(s.seed, "pages"); p.IntN(3) == 0 { // maps begin in several commits
			widths = 3
			s.pages = workflow.DefaultLimits()
			s.pages.FanOut, s.pages.Live = 1+p.IntN(3), 2+p.IntN(6)
		}
		for range 1 + r.IntN(2) {
			add(flows(r, len(s.clients), widths), s.tenants[r.IntN(len(s.tenants))])
		}
	}
	if r := stream(s.seed, "edges"); r.IntN(4) == 0 {
		s.linked = true
		for range 1 + r.IntN(2) {
			add(chains(r, len(s.clients)), s.tenants[r.IntN(len(s.tenants))])
		}
	}
	s.forget = len(s.tenants) > 1 && stream(s.seed, "forget").IntN(3) == 0
	if r := stream(s.seed, "hours"); r.IntN(200) == 0 && !s.tight && s.outage.last == 0 && !s.flowing && !s.linked {
		s.hours = 30*time.Minute + upTo(r, 2*time.Hour)
		add([]wish{{kind: wishCreate, gap: time.Second, try: 4, def: job.Definition{
			Name: hourly + "job", Schedule: job.Schedule{Type: job.Immediate}, Priority: 1, Queue: "default",
			Target: job.Target{Kind: job.Handler, Handler: kind, Timeout: 24 * time.Hour},
			Retry:  job.RetryPolicy{MaxRetries: 5, Backoff: job.Fixed, InitialDelay: time.Second, MaxDelay: time.Second},
		}}}, tenant.Default)
	}
}

// hourly is the prefix of jobs whose attempts last for hours.
const hourly = "hours-"

// clocks generates how clocks are set: those of servers by up to a day, the store's by up to an hour ahead or a
// minute back.
func (s *script) clocks(r *rand.Rand) {
	if r.IntN(4) == 0 {
		s.hostJump = fault{at: upTo(r, chaos), whom: r.IntN(8), last: upTo(r, 48*time.Hour) - 24*time.Hour}
	}
	if r.IntN(8) == 0 {
		s.jump = fault{at: upTo(r, chaos), last: upTo(r, time.Hour)}
		if r.IntN(2) == 0 {
			s.jump.last = -upTo(r, time.Minute)
		}
	}
}

// pickies generates what workers outside the servers take: most of them everything, some only one tenant's, and some
// nothing that exists.
func (s *script) pickies(r *rand.Rand) {
	for range s.remotes {
		p := picky{kind: kind}
		if r.IntN(4) == 0 {
			p.whose = s.tenants[r.IntN(len(s.tenants))]
		}
		s.picky = append(s.picky, p)
	}
	if r.IntN(4) == 0 {
		s.picky = append(s.picky, picky{kind: "other"})
		s.remotes++
	}
	if whole := func(p picky) bool { return p.whose == "" && p.kind == kind }; (s.bare || s.mixed) && !slices.ContainsFunc(s.picky, whole) {
		s.picky[0] = picky{kind: kind} // else nobody would do the work
	}
}

// bulks generates jobs that are created many at a time.
func bulks(r *rand.Rand, client int, crowded bool) []wish {
	var out []wish
	for range 1 + r.IntN(2) {
		w := wish{at: upTo(r, chaos), kind: wishBulk, gap: 100*time.Millisecond + upTo(r, time.Second), try: 1 + r.IntN(4)}
		for range 2 + r.IntN(8) {
			d := definition(r, fmt.Sprintf("bulk-c%d-%d-j%d", client, len(out), len(w.defs)), crowded)
			d.Schedule, d.Key, d.UniqueKey, d.Priority = job.Schedule{Type: job.Immediate}, "", "", 1+r.IntN(10)
			w.defs = append(w.defs, d)
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b wish) int { return int(a.at - b.at) })
	return out
}

// parked is the prefix of jobs whose targets complete them later.
const parked = "park-"

// parks generates jobs whose targets take them over and complete them, most of them in time.
func parks(r *rand.Rand, client int) []wish {
	var out []wish
	for n := range 1 + r.IntN(3) {
		out = append(out, wish{at: upTo(r, chaos), kind: wishCreate, gap: time.Second, try: 3, def: job.Definition{
			Name: fmt.Sprintf("%sc%d-j%d", parked, client, n), Schedule: job.Schedule{Type: job.Immediate}, Priority: 1 + r.IntN(10), Queue: "default",
			Target: job.Target{Kind: job.Handler, Handler: kind, Timeout: 2*lease + upTo(r, lease).Truncate(time.Second)},
			Retry:  job.RetryPolicy{MaxRetries: 2, Backoff: job.Fixed, InitialDelay: time.Second, MaxDelay: time.Second},
		}})
	}
	slices.SortFunc(out, func(a, b wish) int { return int(a.at - b.at) })
	return out
}

// encore generates the requests when all faults are over: many at once.
func encore(r *rand.Rand, client int, at time.Duration, crowded bool) []wish {
	var out []wish
	for n := range 4 + r.IntN(8) {
		d := definition(r, fmt.Sprintf("encore-c%d-j%d", client, n), crowded)
		d.Schedule, d.Key, d.UniqueKey, d.ExpiresAfter = job.Schedule{Type: job.Immediate}, "", "", 0
		out = append(out, wish{at: at, kind: wishCreate, def: d, gap: time.Second, try: 4})
	}
	return out
}
