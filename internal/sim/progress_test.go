package sim

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"
)

var (
	progressFile = flag.String("sim.progress", "", "a file that says how far a long run has come: with the same version and first seed it goes on from there")
	codeVersion  = flag.String("sim.version", "unknown", "the version of the code, for the progress file")
)

// progress says how far a long run of seeds has come.
type progress struct {
	Version    string   `json:"version"`
	First      uint64   `json:"first"`
	Next       uint64   `json:"next"` // all seeds before it were played
	Executions int64    `json:"executions"`
	Faults     int64    `json:"faults"`
	Failed     []uint64 `json:"failed,omitempty"`
	Seconds    float64  `json:"seconds"` // that it took so far

	mu    sync.Mutex
	ahead map[uint64]Result // played, and one before them is not; their histories are dropped
	saved time.Time
	since time.Time
}

// resume reads how far a run has come, or begins one.
func resume(t *testing.T) *progress {
	p := &progress{ahead: map[uint64]Result{}, since: time.Now(), saved: time.Now()}
	if *progressFile != "" {
		b, err := os.ReadFile(*progressFile)
		if err == nil {
			err = json.Unmarshal(b, p)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: %v; delete it to begin anew", *progressFile, err)
		}
	}
	if p.Version != *codeVersion || p.First != *first || p.Next < p.First {
		*p = progress{Version: *codeVersion, First: *first, Next: *first, ahead: p.ahead, since: p.since, saved: p.saved}
	} else if p.Next > p.First {
		fmt.Printf("going on with seed %d, after %d seeds in %.0f s\n", p.Next, p.Next-p.First, p.Seconds)
	}
	return p
}

// done takes in that a seed was played, and now and then writes down how far the run has come.
func (p *progress) done(t *testing.T, seed uint64, r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.History = nil
	p.ahead[seed] = r
	for r, ok := p.ahead[p.Next]; ok; r, ok = p.ahead[p.Next] {
		p.Executions += int64(r.Executions)
		p.Faults += int64(r.Faults)
		if len(r.Violations) > 0 {
			p.Failed = append(p.Failed, p.Next)
		}
		delete(p.ahead, p.Next)
		p.Next++
	}
	if time.Since(p.saved) > 10*time.Second {
		p.save(t)
	}
}

// save writes the file. mu is held, or nobody plays any more.
func (p *progress) save(t *testing.T) {
	p.Seconds += time.Since(p.since).Seconds()
	p.saved, p.since = time.Now(), time.Now()
	if *progressFile == "" {
		return
	}
	b, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.WriteFile(*progressFile+".new", append(b, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(*progressFile+".new", *progressFile)
	}
	if err != nil {
		t.Errorf("write down how far the run has come: %v", err)
	}
	fmt.Printf("%d seeds, %.1f a second, %d failed; next %d\n", p.Next-p.First, float64(p.Next-p.First)/max(p.Seconds, 0.001), len(p.Failed), p.Next)
}
