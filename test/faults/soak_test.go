//go:build unix

package faults

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// samples holds the memory and goroutines of processes.
type samples struct {
	mu    sync.Mutex
	of    map[string][]sample // guarded by mu: by process and life
	names []string            // guarded by mu
}

type sample struct {
	at         time.Duration
	rss        float64 // MB
	goroutines float64
}

// growth compares the middle third of a process's life with its last.
type growth struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Before   float64 `json:"memory_mb_middle_third"`
	After    float64 `json:"memory_mb_last_third"`
	GoBefore float64 `json:"goroutines_middle_third"`
	GoAfter  float64 `json:"goroutines_last_third"`
}

// flatRule is the rule for memory that does not grow.
const flatRule = "Flat means: of each process that lived for at least two minutes, the median of the last third of its life is at most 20 % and 24 MB above that of the middle third, and its goroutines at most 20 % and 50. The first third is its warm-up."

// flat says what is wrong with a process.
func (g growth) flat() string {
	switch {
	case g.After > g.Before*1.2+24:
		return fmt.Sprintf("the memory of %s grew from %.0f to %.0f MB", g.Name, g.Before, g.After)
	case g.GoAfter > g.GoBefore*1.2+50:
		return fmt.Sprintf("the goroutines of %s grew from %.0f to %.0f", g.Name, g.GoBefore, g.GoAfter)
	}
	return ""
}

func (s *samples) growth() (out []growth) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names {
		all := s.of[name]
		life := (all[len(all)-1].at - all[0].at).Seconds()
		if life < 120 || len(all) < 12 {
			continue
		}
		third := len(all) / 3
		g := growth{Name: name, Seconds: life}
		g.Before, g.GoBefore = medians(all[third : 2*third])
		g.After, g.GoAfter = medians(all[2*third:])
		out = append(out, g)
	}
	return out
}

func medians(all []sample) (rss, goroutines float64) {
	var a, b []float64
	for _, s := range all {
		a, b = append(a, s.rss), append(b, s.goroutines)
	}
	slices.Sort(a)
	slices.Sort(b)
	return a[len(a)/2], b[len(b)/2]
}

// watch samples all processes until told to stop.
func (f *fleet) watch(stop <-chan struct{}) {
	client := &http.Client{Timeout: 2 * time.Second}
	for {
		for _, n := range slices.Concat(f.servers, f.workers) {
			p, life := n.process()
			if p.Exited() {
				continue
			}
			s := sample{at: f.now(), rss: resident(p.PID()), goroutines: goroutines(client, p.Out.String())}
			if s.rss == 0 || s.goroutines == 0 { // it was killed, or stands still
				continue
			}
			name := n.name
			if life > 1 {
				name = fmt.Sprintf("%s, life %d", n.name, life)
			}
			f.samples.mu.Lock()
			if f.samples.of[name] == nil {
				f.samples.names = append(f.samples.names, name)
			}
			f.samples.of[name] = append(f.samples.of[name], s)
			f.samples.mu.Unlock()
		}
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Second):
		}
	}
}

// resident is the memory of a process in MB; 0: not known.
func resident(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n / 1024
		}
	}
	return 0
}

var scraped = regexp.MustCompile(`Metrics +(http://\S+/metrics)`)

// goroutines are those of a process, by its metrics, which it says where to find; 0: it does not answer.
func goroutines(c *http.Client, printed string) float64 {
	at := scraped.FindStringSubmatch(printed)
	if at == nil {
		return 0
	}
	a, err := c.Get(at[1])
	if err != nil {
		return 0
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			v, _ := strconv.ParseFloat(n, 64)
			return v
		}
	}
	return 0
}

// The fleet of TestNemesis at 70 % of what it can do, which is measured first, with a fault every 30 seconds: nothing is lost or
// doubled, and memory and goroutines stay as they are after a while.
func TestSoak(t *testing.T) {
	if *soakMinutes == 0 {
		t.Skip("make soak runs it: it takes long")
	}
	p := plan{
		seed: *nemesisSeed, lasts: time.Duration(*soakMinutes * float64(time.Minute)), lease: 10 * time.Second, servers: 3, workers: 5, probes: 24,
		every: 30 * time.Second, spare: true, atOnce: 40, options: []string{"-c shared_buffers=256MB", "-c max_wal_size=1GB"},
	}
	if p.seed == 0 {
		p.seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	again := fmt.Sprintf("make soak MINUTES=%g SEED=%d", *soakMinutes, p.seed)
	if *soakShare != 0.7 {
		again += fmt.Sprintf(" SHARE=%g", *soakShare)
	}
	f := newFleet(t, p)
	f.Logf("seed %d; again: %s", p.seed, again)
	f.settleIn()
	f.steady()
	f.measure()
	f.plan.rate = *soakShare * f.capacity
	f.Logf("it can do %.0f a second; it is asked for %.0f", f.capacity, f.plan.rate)
	stop, done := make(chan struct{}), make(chan struct{})
	f.samples = &samples{of: map[string][]sample{}}
	go func() { f.watch(stop); close(done) }()
	f.run()
	close(stop)
	<-done
	for _, g := range f.samples.growth() {
		if w := g.flat(); w != "" {
			f.say("%s", w)
		}
	}
	f.verdict()
	f.publish("soak", again)
}

// measure finds out how much the fleet can do: more waits than it can do, for a while.
func (f *fleet) measure() {
	f.Helper()
	const behind, warm, counted = 2000, 5 * time.Second, 20 * time.Second
	asked := 0
	began, first := time.Now(), 0
	var since time.Time
	for {
		done := f.trails.completed()
		switch {
		case since.IsZero() && time.Since(began) > warm:
			since, first = time.Now(), done
		case !since.IsZero() && time.Since(since) > counted:
			f.capacity = float64(done-first) / time.Since(since).Seconds()
			f.users.wg.Wait()
			return
		}
		if asked-done < behind {
			w := f.users.plain(250)
			asked += w.n
			f.users.wg.Go(func() { f.users.create(w) })
		}
		<-time.After(10 * time.Millisecond)
	}
}
