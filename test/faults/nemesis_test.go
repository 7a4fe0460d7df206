//go:build unix

package faults

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

var (
	nemesisMinutes = flag.Float64("nemesis.minutes", 0, "how long TestNemesis breaks things; 0: a slice of a few seconds")
	nemesisSeed    = flag.Uint64("nemesis.seed", 0, "what breaks, and what users want; 0: another one each time")
	soakMinutes    = flag.Float64("soak.minutes", 0, "how long TestSoak lasts; 0: it is skipped")
	soakShare      = flag.Float64("soak.share", 0.7, "how much of what it can do TestSoak asks for")
	reportTo       = flag.String("report", "", "folder for the report of TestNemesis or TestSoak, as text and as JSON")
)

// Three servers and five workers over one PostgreSQL serve three tenants with limits, recurring jobs, retries, cancels and pauses,
// while they are killed, stopped, cut off and slowed down, and the database crashes, all as a seed says. After each fault everything
// that was owed flows again within a lease and ten seconds; in the end nothing is lost, nothing is doubled, and what everybody was
// told is linearizable.
func TestNemesis(t *testing.T) {
	t.Parallel()
	p := plan{seed: *nemesisSeed, lasts: time.Duration(*nemesisMinutes * float64(time.Minute)), lease: lease, servers: 3, workers: 5, probes: 24, rate: 60, atOnce: 12}
	if p.seed == 0 {
		p.seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	if p.lasts == 0 {
		p.lasts, p.rate, p.probes, p.servers, p.workers = 6*time.Second, 30, 12, 2, 3
		p.only, p.most = []string{"store crashed", "worker killed", "server killed", "worker cut off"}, lease
	}
	again := fmt.Sprintf("make nemesis MINUTES=%g SEED=%d", *nemesisMinutes, p.seed)
	f := newFleet(t, p)
	f.Logf("seed %d; again: %s", p.seed, again)
	f.settleIn()
	f.steady()
	f.run()
	f.verdict()
	f.publish("nemesis", again)
}

// run loads the fleet and breaks it until its time is over.
func (f *fleet) run() {
	f.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { f.users.load(f.plan.rate, stop) })
	wg.Go(func() { f.users.meddle(stop) })
	rng := rand.New(rand.NewPCG(f.seed, 1))
	f.began, f.done = f.now(), f.trails.completed()
	for end := time.Now().Add(f.lasts); time.Now().Before(end); {
		next := time.Now().Add(f.every)
		f.breakOnce(rng)
		f.trails.sweep(f.now() - 2*time.Minute)
		<-time.After(max(time.Until(next), time.Duration(200+rng.IntN(1800))*time.Millisecond))
	}
	close(stop)
	wg.Wait()
	f.quiet, f.done = f.now(), f.trails.completed()-f.done
}

// steady waits until every probe has called once.
func (f *fleet) steady() {
	f.Helper()
	harness.Eventually(f.T, 30*time.Second, "every probe to call", func() bool {
		return !slices.ContainsFunc(f.probes, func(j *recurring) bool { return len(f.target.since(j.id, 0)) == 0 })
	})
}

// fault is something that is broken for a while.
type fault struct {
	Kind     string
	What     string
	Began    time.Duration
	Healed   time.Duration
	Recovery time.Duration    // until all that was owed flowed again
	Failed   string           // what did not, in time
	from     time.Duration    // what recovery is counted from
	held     map[string]int64 // what the process held
}

// blow begins a fault and returns what ends it, and whether it takes the store away from everybody: then recovery counts from its end.
type blow func(f *fleet, rng *rand.Rand) (what string, last time.Duration, heal func(), all bool)

// kindOfFault is a fault that may be chosen, as often as its share says.
type kindOfFault struct {
	kind  string
	share int
	begin blow
}

// blows are all kinds of faults.
var blows = []kindOfFault{
	{"server killed", 2, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		n := f.servers[f.victim(r, len(f.servers))]
		n.kill()
		return n.name, ms(r, 0, 3000), func() { n.start(f.T) }, false
	}},
	{"worker killed", 3, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		i := f.victim(r, len(f.workers))
		n := f.workers[i]
		f.before(i)
		n.kill()
		return n.name, ms(r, 0, 3000), func() { n.start(f.T) }, false
	}},
	{"server stopped", 2, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		p, _ := f.servers[r.IntN(len(f.servers))].process()
		p.Freeze()
		return f.name(p), ms(r, 300, 9000), p.Thaw, false
	}},
	{"worker stopped", 2, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		i := r.IntN(len(f.workers))
		f.before(i)
		p, _ := f.workers[i].process()
		p.Freeze()
		return f.name(p), ms(r, 300, int(3*f.lease/time.Millisecond)), p.Thaw, false
	}},
	{"worker cut off", 2, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		i := r.IntN(len(f.workers))
		f.before(i)
		what, heal := cut(r, f.links[i]...)
		return f.workers[i].name + ": " + what, ms(r, 500, int(2*f.lease/time.Millisecond)), heal, false
	}},
	{"worker cut off from one server", 1, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		i, s := r.IntN(len(f.workers)), r.IntN(len(f.servers))
		f.before(i)
		what, heal := cut(r, f.links[i][s])
		return f.workers[i].name + " from " + f.servers[s].name + ": " + what, ms(r, 500, int(2*f.lease/time.Millisecond)), heal, false
	}},
	{"server cut off from the store", 2, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		n := f.servers[r.IntN(len(f.servers))]
		what, heal := cut(r, n.store)
		return n.name + ": " + what, ms(r, 500, 9000), heal, false
	}},
	{"store slow", 1, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		by := ms(r, 5, 60)
		for _, n := range f.servers {
			n.store.Slow(by)
		}
		return by.String(), ms(r, 1000, 6000), func() {
			for _, n := range f.servers {
				n.store.Slow(0)
			}
		}, true
	}},
	{"store crashed", 2, func(f *fleet, r *rand.Rand) (string, time.Duration, func(), bool) {
		f.db.crash()
		return "pg_ctl stop -m immediate, and start", ms(r, 0, 3000), f.db.start, true
	}},
}

// ms is a random time in milliseconds.
func ms(r *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+r.IntN(to-from)) * time.Millisecond
}

// cut holds back what comes by some links, both ways or one, and later lets it pass or ends the connections.
func cut(r *rand.Rand, links ...*harness.Link) (what string, heal func()) {
	ways := [][]int{{harness.There, harness.Back}, {harness.There}, {harness.Back}}[r.IntN(3)]
	reset := r.IntN(2) == 0
	for _, l := range links {
		l.Hold(ways...)
	}
	what = map[bool]string{true: "both ways", false: "one way"}[len(ways) == 2]
	return what, func() {
		for _, l := range links {
			if reset {
				l.Reset()
			}
			l.Open(harness.There, harness.Back)
		}
	}
}

// victim returns who is killed.
func (f *fleet) victim(r *rand.Rand, n int) int {
	if f.spare {
		return 1 + r.IntN(n-1)
	}
	return r.IntN(n)
}

func (f *fleet) name(p *harness.Process) string {
	for _, n := range slices.Concat(f.servers, f.workers) {
		if q, _ := n.process(); q == p {
			return n.name
		}
	}
	return ""
}

// before notes what a worker holds when it fails.
func (f *fleet) before(worker int) {
	x := f.faults[len(f.faults)-1]
	x.held = f.trails.held(worker)
}

// choose is the kind of the next fault.
func (f *fleet) choose(rng *rand.Rand) kindOfFault {
	if n := len(f.only); n > 0 {
		want := f.only[len(f.faults)%n]
		return blows[slices.IndexFunc(blows, func(b kindOfFault) bool { return b.kind == want })]
	}
	shares := 0
	for _, b := range blows {
		shares += b.share
	}
	d := rng.IntN(shares)
	return blows[slices.IndexFunc(blows, func(b kindOfFault) bool { d -= b.share; return d < 0 })]
}

// breakOnce begins a fault, ends it and measures how long it is felt.
func (f *fleet) breakOnce(rng *rand.Rand) {
	f.Helper()
	b := f.choose(rng)
	x := &fault{Kind: b.kind, Began: f.now()}
	f.faults = append(f.faults, x)
	what, last, heal, all := b.begin(f, rng)
	if f.most > 0 {
		last = min(last, f.most)
	}
	x.What = fmt.Sprintf("%s, for %v", what, last.Round(time.Millisecond))
	promise := f.promise()
	until := time.Now().Add(last)
	x.from = x.Began
	if all {
		<-time.After(time.Until(until))
		heal()
		x.Healed = f.now()
		x.from = x.Healed
	}
	recovered := f.recovered(x)
	late := f.rec.Began().Add(x.from + atMost(promise) + 5*time.Second)
	for {
		if !time.Now().Before(until) && x.Healed == 0 {
			heal()
			x.Healed = f.now()
		}
		if missing := recovered(); missing == "" {
			if x.Healed != 0 {
				break
			}
		} else if time.Now().After(late) && x.Healed != 0 {
			x.Failed = missing
			x.Recovery = f.now() - x.from
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	f.Logf("%6.1fs %s (%s): flows again after %.1fs %s", x.Began.Seconds(), x.Kind, x.What, x.Recovery.Seconds(), x.Failed)
	if x.Failed != "" || x.Recovery > atMost(promise) {
		f.say("I12: %s (%s) at %.1fs: %.1fs until all flowed again, want %v at the most %s", x.Kind, x.What, x.Began.Seconds(), x.Recovery.Seconds(), promise, x.Failed)
	}
}

// promise returns how long a fault may be felt.
func (f *fleet) promise() time.Duration { return f.lease + 10*time.Second }

// late sets when a call is late: what is due is prepared before, and the machine may be busy.
const late = 1500 * time.Millisecond

// recovered returns a look at what a fault still holds up. What the process held must have ended or be queued or run again. And of
// every probe, which is owed each second, all instants since the fault must have come, up to one that was not staged before the
// fault and is in time. When nothing is held up any more, it notes when the last thing came that was late.
func (f *fleet) recovered(x *fault) func() (missing string) {
	since := f.rec.Began().Add(x.from)
	type progress struct {
		seen int            // of the calls
		next time.Time      // the first instant that has not come
		came map[int64]bool // those after it
		done bool
	}
	waits := map[string]*progress{}
	for _, j := range f.probes {
		waits[j.id] = &progress{seen: len(f.target.since(j.id, 0)), came: map[int64]bool{}}
	}
	var last time.Duration
	asked := time.Now()
	done := false
	return func() string {
		if done {
			return ""
		}
		for id, p := range waits {
			for _, c := range f.target.since(id, p.seen) {
				p.seen++
				behind := f.rec.Began().Add(c.at).Sub(c.instant)
				if behind > late {
					last = max(last, c.at)
				}
				if c.instant.Before(since) {
					continue
				}
				p.came[c.instant.Unix()] = true
				if behind <= late && c.instant.After(since.Add(2*time.Second)) {
					p.done = true
				}
			}
			if p.next.IsZero() {
				p.next = since.Truncate(time.Second).Add(time.Second)
			}
			for p.came[p.next.Unix()] {
				p.next = p.next.Add(time.Second)
			}
			if p.done && len(p.came) > 0 && p.next.After(since.Add(2*time.Second)) && time.Since(p.next) < late {
				delete(waits, id)
			}
		}
		ask := time.Since(asked) > 500*time.Millisecond
		for id, token := range x.held {
			if f.trails.over(id, token) || ask && f.letGo(id, token) {
				last = max(last, f.now())
				delete(x.held, id)
			}
		}
		if ask {
			asked = time.Now()
		}
		if len(waits)+len(x.held) > 0 {
			return missing(slices.Collect(maps.Keys(waits)), slices.Collect(maps.Keys(x.held)))
		}
		done = true
		x.Recovery = max(0, last-x.from)
		return ""
	}
}

// letGo reports whether a lease is over, by the API.
func (f *fleet) letGo(id string, token int64) bool {
	for tenant := range f.tenants {
		var told client.ExecutionAttempts
		code, text, err := f.ask(tenant, "GET", "/api/v1/executions/"+id+"/attempts?limit=1000", "")
		if err != nil || code != 200 || decode(text, &told) != nil {
			continue
		}
		return !slices.ContainsFunc(told.Attempts, func(a client.ExecutionAttempt) bool { return a.FencingToken == token && a.Status == "RUNNING" })
	}
	return false
}

func missing(waits, held []string) string {
	slices.Sort(waits)
	slices.Sort(held)
	return fmt.Sprintf("%d probes %v and %d executions %v are held up", len(waits), waits[:min(len(waits), 3)], len(held), held[:min(len(held), 3)])
}
