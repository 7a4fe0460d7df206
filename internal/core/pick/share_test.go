package pick

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func TestASmallShareIsTold(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 10}})
	for range 6 {
		p.Add(ready("t"))
	}
	if got := p.pick(9, start); len(got) != 0 || !p.Narrow() {
		t.Fatalf("picked %d without a share, or did not tell", len(got))
	}
	s := p.Shares()
	if len(s) != 1 || s[0].Want != 6 || s[0].Whole != 10 || p.Narrow() {
		t.Fatalf("shares %+v", s)
	}
	p.Allow(s[0], 4)
	if got := p.pick(9, start); len(got) != 4 {
		t.Fatalf("picked %d with a share of 4", len(got))
	}
	if s := p.Shares(); s[0].Want != 6 {
		t.Errorf("wants %d", s[0].Want)
	}
}

// Shares are asked for at once only where much waits for more of what was given in full: not for a few, not for what a rate or
// the limit itself holds back, and not again where there was no more.
func TestPressed(t *testing.T) {
	hourly := job.Rate{Count: 1, Per: time.Hour, Burst: 1}
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 100}, {Tenant: "rated", Rate: hourly}})
	add := func(n int) {
		for range n {
			p.Add(ready("t"))
		}
		p.started(p.pick(1000, start))
	}
	p.gates[scope{tenant: "rated"}].count = 5 // as if some had run elsewhere since
	p.Recount(nil)
	add(pressing - 1)
	if !p.Narrow() || p.Pressed() {
		t.Errorf("%d wait: narrow %v, pressed %v", pressing-1, p.Narrow(), p.Pressed())
	}
	add(1)
	if !p.Pressed() {
		t.Errorf("%d wait, and it is not pressed", pressing)
	}
	p.Allow(p.Shares()[0], pressing)
	add(pressing)
	if !p.Pressed() {
		t.Error("as many again wait, and it is not pressed")
	}
	p.Allow(p.Shares()[0], pressing+1) // of 20
	add(50)
	if !p.Narrow() || p.Pressed() {
		t.Errorf("others have the rest: narrow %v, pressed %v", p.Narrow(), p.Pressed())
	}
	p.Allow(p.Shares()[0], 100)
	add(500)
	if p.Narrow() || p.Pressed() {
		t.Errorf("all of it is used: narrow %v, pressed %v", p.Narrow(), p.Pressed())
	}
}

// A share that is given back may be another's before the answer comes, or does not.
func TestWhatIsGivenBackIsNotUsed(t *testing.T) {
	p := New()
	p.Limit([]job.Limit{{Tenant: "t", Max: 3}})
	p.Allow(p.Shares()[0], 3)
	p.Add(ready("t"))
	p.started(p.pick(9, start))
	if s := p.Shares(); s[0].Want != 1 {
		t.Fatalf("it wants %d, and one runs", s[0].Want)
	}
	p.Add(ready("t"))
	if got := p.pick(9, start); len(got) != 0 || !p.Narrow() {
		t.Errorf("picked %d after it gave back all but what runs", len(got))
	}
}
