package enginetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func pauses(t *testing.T, h Harness) {
	f := open(t, h)
	now := must(f.Now(f.ctx)).UTC().Truncate(time.Microsecond)
	pause := func(queue string, p job.Pause) {
		t.Helper()
		if err := f.PauseQueue(f.ctx, tenant.Default, queue, p, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit := func(l job.Limit) {
		t.Helper()
		l.Tenant = tenant.Default
		if err := f.SetLimit(f.ctx, l, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, ls ...job.Limit) {
		t.Helper()
		for i := range ls {
			ls[i].Tenant = tenant.Default
		}
		for _, of := range []tenant.ID{tenant.Default, ""} {
			if got := must(f.Limits(f.ctx, of)); !slices.Equal(got, ls) {
				t.Errorf("%s, asked for %q:\n got %+v\nwant %+v", what, of, got, ls)
			}
		}
	}
	first := job.Pause{At: now, By: "ann", Reason: "the mail server\nis moved"}
	second := job.Pause{At: now, Until: now.Add(time.Hour), By: "bob"}
	rate := job.Rate{Count: 5, Per: time.Second, Burst: 2}

	pause("mail", first)
	want("paused", job.Limit{Queue: "mail", Pause: first})
	pause("mail", second)
	want("paused again", job.Limit{Queue: "mail", Pause: second})
	limit(job.Limit{Queue: "mail", Max: 3, Rate: rate})
	limit(job.Limit{Queue: "slow", Max: 1})
	want("with a limit", job.Limit{Queue: "mail", Max: 3, Rate: rate, Pause: second}, job.Limit{Queue: "slow", Max: 1})
	limit(job.Limit{Queue: "mail"})
	want("the limit is removed, the pause stays", job.Limit{Queue: "mail", Pause: second}, job.Limit{Queue: "slow", Max: 1})
	limit(job.Limit{Queue: "mail", Max: 4})
	pause("mail", job.Pause{})
	want("resumed, the limit stays", job.Limit{Queue: "mail", Max: 4}, job.Limit{Queue: "slow", Max: 1})
	pause("slow", first)
	pause("slow", job.Pause{})
	pause("none", job.Pause{})
	limit(job.Limit{Queue: "mail"})
	limit(job.Limit{Queue: "slow"})
	want("neither")

	over := job.Pause{At: now.Add(-time.Hour), Until: now.Add(-time.Minute)}
	pause("mail", over)
	pause("slow", over)
	limit(job.Limit{Queue: "slow", Max: 2})
	want("it has ended by itself", job.Limit{Queue: "slow", Max: 2})
	must(f.Tidy(f.ctx))
	want("and is tidied", job.Limit{Queue: "slow", Max: 2})
	pause("mail", first)
	if err := f.PauseQueue(f.ctx, "acme", "mail", second, nil); err != nil {
		t.Fatal(err)
	}
	if got := must(f.Limits(f.ctx, "acme")); !slices.Equal(got, []job.Limit{{Tenant: "acme", Queue: "mail", Pause: second}}) {
		t.Errorf("another tenant's: %+v", got)
	}
	if err := f.PauseQueue(f.ctx, "acme", "mail", job.Pause{}, nil); err != nil {
		t.Fatal(err)
	}
	want("still paused here", job.Limit{Queue: "mail", Pause: first}, job.Limit{Queue: "slow", Max: 2})
}

func cordons(t *testing.T, h Harness) {
	f := open(t, h)
	own, all := f.worker(), f.worker()
	cordon := func(of tenant.ID, w job.WorkerID, on bool, want error) {
		t.Helper()
		if err := f.Cordon(f.ctx, of, w, on, nil); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	want := func(ws ...job.WorkerID) {
		t.Helper()
		got := must(f.Cordoned(f.ctx))
		if len(got) != len(ws) {
			t.Fatalf("cordoned: %v, want %v", got, ws)
		}
		for _, w := range ws {
			x := must(f.Worker(f.ctx, w))
			if !slices.Contains(got, w) || !x.Cordoned || x.State(must(f.Now(f.ctx))) != job.WorkerCordoned {
				t.Errorf("%v: %+v", w, x)
			}
		}
	}
	want()
	cordon(tenant.Default, own, true, nil)
	cordon(tenant.Default, own, true, nil)
	want(own)
	cordon(tenant.Default, all, true, nil)
	want(own, all)
	census := must(f.Census(f.ctx, time.Now().Add(-time.Hour)))
	if census.Workers != 0 || census.Slots != 0 || census.Draining != 2 {
		t.Errorf("census: %+v", census)
	}
	if _, err := f.Renew(f.ctx, []engine.Renewal{{Worker: own}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	want(own, all) // a beat changes nothing
	cordon(tenant.Default, own, false, nil)
	want(all)
	must(f.Leave(f.ctx, all))
	want()
	cordon(tenant.Default, all, true, engine.ErrNotFound)
	cordon(tenant.Default, job.WorkerID(newID()), true, engine.ErrNotFound)
	if x := must(f.Worker(f.ctx, own)); x.Cordoned {
		t.Errorf("%+v", x)
	}
}
