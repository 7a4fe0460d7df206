package pick

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

func inMail(r *job.Ready) { r.Class = job.Needs{Target: job.HTTP, Queue: "mail"}.Class() }

func TestNothingOfAPausedQueueIsPicked(t *testing.T) {
	p := New()
	until := start.Add(time.Minute)
	p.Limit([]job.Limit{{Tenant: "a", Queue: "mail", Pause: job.Pause{At: start, Until: until}}})
	group := grouped(job.Group{Key: 7, Max: 1})
	for _, r := range []*job.Ready{ready("a", inMail), ready("a", inMail, group), ready("a", inMail, group), ready("a"), ready("b", inMail)} {
		p.Add(r)
	}
	if got := tenants(p.pick(10, start)); got["a"] != 1 || got["b"] != 1 {
		t.Errorf("picked: %v", got)
	}
	if p.Any(all, start) || p.Short() || p.Limits(&job.Ready{Tenant: "a", Class: job.Needs{Target: job.HTTP, Queue: "mail"}.Class()}) {
		t.Error("a pause is no limit, and nothing more can be picked")
	}
	if p.Len() != 3 || !p.Any(all, until) {
		t.Errorf("when it has ended by itself: %d wait", p.Len())
	}
	if n := len(p.pick(10, until)); n != 2 {
		t.Errorf("%d were picked, want one of the group and the one in none", n)
	}
}

func TestShed(t *testing.T) {
	p := New()
	group := grouped(job.Group{Key: 7, Max: 1})
	for range 3 {
		p.Add(ready("a", inMail))
		p.Add(ready("a", inMail, group))
	}
	held := p.pick(10, start) // all of no group and one of the group, which then stands aside
	if len(held) != 4 {
		t.Fatalf("%d were picked", len(held))
	}
	p.Add(ready("a", inMail))
	p.Add(ready("a"))
	pause := job.Limit{Tenant: "a", Queue: "mail", Pause: job.Pause{At: start}}
	p.Limit([]job.Limit{pause})
	var out []*job.Ready
	shed := func() { out = nil; p.Shed(start, func(r *job.Ready) { out = append(out, r) }) }
	if shed(); len(out) != 3 || p.Len() != 1 || p.Waiting("a") != 1 {
		t.Fatalf("%d were let go, %d are left", len(out), p.Len())
	}
	if shed(); len(out) != 0 {
		t.Errorf("once more: %d", len(out))
	}
	if n := len(p.pick(10, start)); n != 1 {
		t.Errorf("%d of the other queue", n)
	}
	p.Limit(nil)
	for _, r := range []*job.Ready{ready("a", inMail), ready("a", inMail, group)} {
		p.Add(r)
	}
	if n := len(p.pick(10, start)); n != 1 {
		t.Errorf("%d came, although the group is full", n)
	}
	for _, r := range held {
		p.Dropped(r)
	}
	if n := len(p.pick(10, start)); n != 1 || p.Len() != 0 {
		t.Errorf("%d came when the group had room", n)
	}
	p.Add(ready("a", inMail))
	p.Limit([]job.Limit{pause})
	if shed(); len(out) != 1 || p.Any(all, start) || len(p.turn) != 0 {
		t.Errorf("the last of a tenant: %d, %d have a turn", len(out), len(p.turn))
	}
}
