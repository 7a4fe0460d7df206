package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// some is the number of executions in the bundles of the tests.
const some = 16

// bundle is a creation of whole bundles, each in a partition of its own.
func bundle(t testing.TB, s *Store, bundles int) engine.Creation {
	t.Helper()
	c := creation(t, s, bundles*some)
	for i := range c.Jobs {
		if i%some == 0 {
			ids := job.BundleIDs(newID(), job.Partition(i/some%job.Partitions), job.Bundle)
			for k, id := range ids[:some] {
				c.Jobs[i+k].ID = id
			}
		}
		j, e := &c.Jobs[i], &c.Executions[i]
		e.ID, e.Job, e.Partition = job.ExecutionID(j.ID), j.ID, job.PartitionOf(j.ID)
	}
	return c
}

// places says how many executions there are in each of the three places; each that is in more than one, or open and finished, fails the test.
func places(t *testing.T, c *pgx.Conn) (bundles, packed, live, past int) {
	t.Helper()
	const all = `WITH p AS (SELECT u.id FROM bundles b CROSS JOIN LATERAL unnest(b.ids) u(id) WHERE ` + isOpen + `)
		SELECT (SELECT count(*) FROM bundles), (SELECT count(*) FROM p), (SELECT count(*) FROM live), (SELECT count(*) FROM executions),
			(SELECT count(*) - count(DISTINCT id) FROM (SELECT id FROM p UNION ALL SELECT id FROM live UNION ALL SELECT id FROM executions) x)`
	var twice int
	if err := c.QueryRow(t.Context(), all).Scan(&bundles, &packed, &live, &past, &twice); err != nil {
		t.Fatal(err)
	}
	if twice != 0 {
		t.Errorf("%d executions are in two places", twice)
	}
	return bundles, packed, live, past
}

func wantPlaces(t *testing.T, c *pgx.Conn, when string, want ...int) {
	t.Helper()
	a, b, l, p := places(t, c)
	if got := []int{a, b, l, p}; !slices.Equal(got, want) {
		t.Errorf("%s: bundles, packed, live, past are %v, want %v", when, got, want)
	}
}

func grant(t testing.TB, s *Store, ids ...job.ExecutionID) []job.Attempt {
	t.Helper()
	return must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: ids}}, engine.Fence{}))
}

func finishAll(t testing.TB, s *Store, as []job.Attempt) {
	t.Helper()
	fs := make([]job.Finish, len(as))
	for i := range as {
		fs[i] = success(as[i])
	}
	for _, v := range must[[]job.Verdict](t)(s.Finish(t.Context(), fs)) {
		if !v.Accepted {
			t.Errorf("refused: %+v", v)
		}
	}
}

func TestABundleLivesAndEndsAsOneRow(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	c := bundle(t, s, 4)
	store(t, s, c)
	wantPlaces(t, d, "created", 4, 64, 0, 0)
	as := grant(t, s, ids(c)...)
	wantPlaces(t, d, "leased", 4, 64, 0, 0)
	if len(as) != 64 {
		t.Fatalf("leased %d", len(as))
	}
	for i, a := range as {
		j := &c.Jobs[i]
		if a.Execution != c.Executions[i].ID || a.Job != j.ID || a.JobName != j.Name || a.Tenant != j.Tenant || string(a.Payload) != string(j.Payload) || a.Number != 1 || a.MaxAttempts != 4 ||
			a.Target.WorkKind != "noop" || a.Token != as[0].Token || !a.StartedAt.Equal(a.LeasedAt) || !a.DueAt.Equal(c.Executions[i].DueAt) || a.Trigger != job.ByAPI {
			t.Errorf("attempt %d: %+v", i, a)
		}
	}
	if again := grant(t, s, ids(c)...); len(again) != 0 {
		t.Errorf("%d are leased twice", len(again))
	}
	wantPlaces(t, d, "leased again", 4, 64, 0, 0)
	if running := must[[]engine.Running](t)(s.Running(t.Context(), nil)); len(running) != 64 || running[0].Token != as[0].Token {
		t.Errorf("%d run", len(running))
	}
	finishAll(t, s, as[:40])
	wantPlaces(t, d, "two and a half ended", 2, 24, 0, 40)
	if n := due(t, s); n != 24 {
		t.Errorf("%d are due", n)
	}
	finishAll(t, s, as) // the first of them once more
	wantPlaces(t, d, "ended", 0, 0, 0, 64)
	for i, e := range c.Executions {
		got := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, e.ID))
		if got.Status != job.Succeeded || got.Token != as[i].Token || got.Attempt != 1 || !got.LeasedAt.Equal(as[i].LeasedAt) || got.FinishedAt.IsZero() || got.Worker == (job.WorkerID{}) {
			t.Errorf("history: %+v", got)
		}
	}
}

func TestABundleIsParted(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	c := bundle(t, s, 4)
	store(t, s, c)
	all := ids(c)
	if as := grant(t, s, all[:5]...); len(as) != 5 {
		t.Errorf("leased %d of 5", len(as))
	}
	wantPlaces(t, d, "five of one", 5, 64, 0, 0)
	gs := []engine.Grant{{Worker: session(t, s, time.Hour), Executions: all[5:20]}, {Worker: session(t, s, time.Hour), Executions: all[20:30]}}
	as := must[[]job.Attempt](t)(s.Lease(t.Context(), gs, engine.Fence{})) // the second wants what is behind the first's
	if len(as) != 25 || as[0].Execution != all[5] || as[24].Execution != all[29] || as[14].Token == as[15].Token {
		t.Errorf("leased %d of 25", len(as))
	}
	wantPlaces(t, d, "cut by two grants", 7, 64, 0, 0)
	if as := grant(t, s, all[30]); len(as) != 1 {
		t.Errorf("leased %d of 1", len(as))
	}
	wantPlaces(t, d, "one of two", 6, 62, 2, 0)
	if as := grant(t, s, all[40:48]...); len(as) != 8 { // not the first
		t.Errorf("leased %d of 8", len(as))
	}
	wantPlaces(t, d, "the last of one", 5, 46, 18, 0)
	lane := func(i int) engine.LaneCursor {
		e := &c.Executions[i]
		return engine.LaneCursor{Lane: job.Lane{Partition: e.Partition, Tenant: tenant.Default, Class: e.Class, Priority: e.Priority}}
	}
	ready := must[[]job.Ready](t)(s.Ready(t.Context(), []engine.LaneCursor{lane(0), lane(16), lane(32)}, 20))
	if len(ready) != 9 || ready[0].ID != all[31] || ready[8].ID != all[39] {
		t.Errorf("%d are ready", len(ready))
	}
	if n := due(t, s); n != 64 {
		t.Errorf("%d are due", n)
	}
}

// What is ready is listed in one order, however it is stored, and from every place.
func TestBundlesAmongRows(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := bundle(t, s, 6)
	for i := range c.Jobs { // all in one lane
		if i%some == 0 {
			ids := job.BundleIDs(newID(), 7, job.Bundle)
			for k, id := range ids[:some] {
				c.Jobs[i+k].ID, c.Executions[i+k].ID, c.Executions[i+k].Job, c.Executions[i+k].Partition = id, job.ExecutionID(id), id, 7
			}
		}
	}
	store(t, s, c)
	all := ids(c)
	for _, id := range []int{20, 77} { // unpacked
		if err := unpack(t.Context(), s.database, s.read, all[id]); err != nil {
			t.Fatal(err)
		}
	}
	grant(t, s, all[32:36]...) // parted
	all = slices.Delete(all, 32, 36)
	e := &c.Executions[0]
	for _, per := range []int{1, 2, 7, 15, 16, 17, 32, 40, 49, 200} {
		at := engine.LaneCursor{Lane: job.Lane{Partition: 7, Tenant: tenant.Default, Class: e.Class, Priority: e.Priority}}
		var got []job.ExecutionID
		for {
			rs := must[[]job.Ready](t)(s.Ready(t.Context(), []engine.LaneCursor{at}, per))
			for _, r := range rs {
				got = append(got, r.ID)
				at.DueAt, at.After = r.DueAt, r.ID
			}
			if len(rs) < per {
				break
			}
			if n := len(got); per >= job.Bundle && n < len(all) && job.BundleOf(all[n]) == job.BundleOf(all[n-1]) {
				t.Errorf("by %d: the bundle of %s is listed in part", per, all[n])
			} else if per < job.Bundle && len(rs) > per {
				t.Errorf("by %d: %d are listed", per, len(rs))
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("by %d: %d, want %d in their order", per, len(got), len(all))
		}
	}
	for _, per := range []int{1, 7, 16, 50, 200} {
		var got []job.ExecutionID
		for cursor, more := "", true; more; {
			p := must[engine.ExecutionPage](t)(s.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: tenant.Default, Statuses: []job.Status{job.Pending}}, engine.Page{Limit: per, Cursor: cursor, Bounded: true}))
			for _, e := range p.Executions {
				got = append(got, e.ID)
			}
			if cursor, more = p.Next, p.Next != ""; p.Total.Count != int64(len(all)) {
				t.Errorf("%+v in all, want %d", p.Total, len(all))
			}
		}
		if slices.Reverse(got); !slices.Equal(got, all) {
			t.Errorf("listed by %d: %d, want %d in their order", per, len(got), len(all))
		}
	}
}

// Two that report under one lease as two workers: only the one that holds it is heard.
func TestABundleIsFinishedByWhoHoldsIt(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	c := bundle(t, s, 4)
	store(t, s, c)
	as := grant(t, s, ids(c)...)
	w := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[0].Execution)).Worker
	fs := make([]job.Finish, 16)
	for i := range fs {
		fs[i] = success(as[i])
		if fs[i].Worker = w; i%2 == 0 {
			fs[i].Worker = session(t, s, time.Hour)
		}
	}
	for i, v := range must[[]job.Verdict](t)(s.Finish(t.Context(), fs)) {
		if v.Accepted != (i%2 == 1) {
			t.Errorf("%d: %+v", i, v)
		}
	}
	made := success(as[20]) // beside a member, one with an id that was made up
	made.Outcome.Execution[15]++
	if vs := must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(as[17]), made})); !vs[0].Accepted || vs[1].Accepted || vs[1].Reason != job.RefusedUnknown {
		t.Errorf("beside an id that was made up: %+v", vs)
	}
	stale := success(as[16])
	stale.Outcome.Token--
	if v := must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{stale}))[0]; v.Accepted || v.Reason != job.RefusedStale {
		t.Errorf("under another token: %+v", v)
	}
	finishAll(t, s, as[17:])
	_, packed, live, past := places(t, d)
	if packed+live != 9 || past != 55 {
		t.Errorf("%d packed, %d live, %d past", packed, live, past)
	}
}

// Whatever is done to one execution of a bundle finds it, and leaves the others as they were.
func TestABundleIsUnpacked(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	for name, do := range map[string]func(t *testing.T, c engine.Creation, as []job.Attempt) (live, past int){
		"cancel": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			if st := must[engine.Cancelled](t)(s.Cancel(t.Context(), tenant.Default, as[3].Execution, "x", nil)).Status; st != job.Cancelling {
				t.Errorf("%v", st)
			}
			return 16, 0
		},
		"fail": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			if v := must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{failure(as[3]), success(as[4])})); !v[0].Accepted || !v[1].Accepted {
				t.Errorf("%+v", v)
			}
			return 15, 1
		},
		"release": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			release(t, s, as[3:5])
			return 16, 0
		},
		"progress": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			w := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[0].Execution)).Worker
			o := must[engine.Orders](t)(s.Renew(t.Context(), []engine.Renewal{{Worker: w, Advances: []job.Advance{{Lease: as[5].Lease, Percent: 7}}}}, time.Hour))
			if p := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[5].Execution)).Progress; p == nil || p.Percent != 7 || len(o.Orders) != 0 {
				t.Errorf("%+v, %+v", p, o)
			}
			return 16, 0
		},
		"leave": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			w := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[0].Execution)).Worker
			finishAll(t, s, as[:2])
			if rs := must[engine.Requeued](t)(s.Leave(t.Context(), w)).Ready; len(rs) != 14 {
				t.Errorf("%d came back", len(rs))
			}
			return 14, 2
		},
		"disown": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			w := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[0].Execution)).Worker
			if rs := must[engine.Requeued](t)(s.Disown(t.Context(), w, nil, time.Time{})).Ready; len(rs) != 16 {
				t.Errorf("%d came back", len(rs))
			}
			return 16, 0
		},
		"reap": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			w := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[0].Execution)).Worker
			finishAll(t, s, as[:1])
			must[engine.Orders](t)(s.Renew(t.Context(), []engine.Renewal{{Worker: w}}, -time.Second))
			if r := must[engine.Reaped](t)(s.Reap(t.Context(), 100, 0)); len(r.Ready) != 15 {
				t.Errorf("%d came back", len(r.Ready))
			}
			if a := must[[]job.PastAttempt](t)(s.Attempts(t.Context(), tenant.Default, as[9].Execution)); len(a) != 1 || a[0].Error.Type != job.LeaseLost {
				t.Errorf("%+v", a)
			}
			return 15, 1
		},
		"delete a job": func(t *testing.T, c engine.Creation, as []job.Attempt) (int, int) {
			j := must[engine.Deleted](t)(s.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: c.Jobs[2].ID, AsOf: time.Now()}))
			if j.State != job.Deleted {
				t.Errorf("%v", j.State)
			}
			finishAll(t, s, as)
			return 0, 16
		},
		"update a job": func(t *testing.T, c engine.Creation, _ []job.Attempt) (int, int) {
			j := c.Jobs[2]
			j.Name = "another"
			if got := must[job.Job](t)(s.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, AsOf: time.Now()})); got.State != job.Active || got.Name != "another" {
				t.Errorf("%+v", got)
			}
			return 16, 0
		},
		"overrun": func(t *testing.T, _ engine.Creation, as []job.Attempt) (int, int) {
			exec(t, d, "UPDATE bundles SET timeout_ms = 1, leased_at = leased_at - interval '1 minute' WHERE lease = $1", int64(as[0].Token))
			exec(t, d, "UPDATE leases SET at = at - interval '1 minute' WHERE lease = $1", int64(as[0].Token))
			s.watch.given(map[job.Token]time.Time{as[0].Token: time.Now().Add(-time.Minute)})
			if got := must[[]engine.Overrun](t)(s.Overrun(t.Context(), 0, 100)); len(got) != 16 {
				t.Errorf("%d overrun", len(got))
			}
			return 16, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			exec(t, d, "TRUNCATE bundles, live, executions, leases, attempts")
			c := bundle(t, s, 4)
			store(t, s, c)
			as := grant(t, s, ids(c)[:16]...)
			if len(as) != 16 {
				t.Fatalf("leased %d", len(as))
			}
			live, past := do(t, c, as)
			wantPlaces(t, d, name, 3, 48, live, past)
		})
	}
}

// The directory is how what a dead worker holds is found: it keeps bundles for as long as something of them is held.
func TestTidyKeepsTheDirectoryOfBundles(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	c := bundle(t, s, 12)
	store(t, s, c)
	as := grant(t, s, ids(c)...)
	finishAll(t, s, as[:170])
	exec(t, d, "UPDATE leases SET at = at - interval '2 minutes'")
	must[bool](t)(s.Tidy(t.Context()))
	if n, keys := one[int](t, d, "SELECT cardinality(ids) FROM leases"), one[int](t, d, "SELECT cardinality(keys) FROM leases"); n != 22 || keys != 2 {
		t.Errorf("%d ids and %d keys are left, want 22 and 2", n, keys)
	}
	must[bool](t)(s.Tidy(t.Context()))
	w := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[191].Execution)).Worker
	if rs := must[engine.Requeued](t)(s.Leave(t.Context(), w)).Ready; len(rs) != 22 {
		t.Errorf("%d came back, want 22", len(rs))
	}
	wantPlaces(t, d, "handed back", 0, 0, 22, 170)
	back := grant(t, s, ids(c)[170:]...)
	if finishAll(t, s, back); len(back) != 22 {
		t.Errorf("leased %d", len(back))
	}
	exec(t, d, "UPDATE leases SET at = at - interval '2 minutes'")
	must[bool](t)(s.Tidy(t.Context()))
	if n := one[int](t, d, "SELECT count(*) FROM leases"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// Lanes of bundles are listed in their place among those of groups, whatever the keys of these are.
func TestBundledLanesAmongGroups(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := bundle(t, s, 4)
	for i := range c.Executions[:8] {
		c.Executions[i].Group = job.Group{Key: job.GroupKey(3 - i), Max: 1}
		c.Executions[i].Payload = []byte("1") // so that it is in no bundle
	}
	store(t, s, c)
	all := must[[]job.Lane](t)(s.Lanes(t.Context(), nil, 100))
	if len(all) != 4+7 { // the group 0 is none
		t.Errorf("%d lanes", len(all))
	}
	for _, per := range []int{1, 2, 3, 5} {
		var got []job.Lane
		for after := (*job.Lane)(nil); ; after = &got[len(got)-1] {
			page := must[[]job.Lane](t)(s.Lanes(t.Context(), after, per))
			if got = append(got, page...); len(page) < per {
				break
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("by %d: %v, want %v", per, got, all)
		}
	}
}

// Executions of many groups share bundles, and are listed among what is in none, until they are unpacked.
func TestBundlesOfGroups(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	c := bundle(t, s, 4)
	of := map[job.ExecutionID]job.Group{}
	for i := range c.Executions {
		e := &c.Executions[i]
		e.Group = job.Group{Key: job.GroupKey(i - 30), Max: 5, Rate: job.Rate{Count: 7, Per: time.Second, Burst: 9}}
		if i == 30 {
			e.Group.Key = 77
		}
		of[e.ID] = e.Group
	}
	store(t, s, c)
	wantPlaces(t, d, "created", 4, 64, 0, 0)
	lanes := must[[]job.Lane](t)(s.Lanes(t.Context(), nil, 100))
	var cs []engine.LaneCursor
	for _, l := range lanes {
		cs = append(cs, engine.LaneCursor{Lane: l})
	}
	listed := func() (out []job.ExecutionID) {
		t.Helper()
		for _, r := range must[[]job.Ready](t)(s.Ready(t.Context(), cs, 100)) {
			if out = append(out, r.ID); r.Group != of[r.ID] || !r.Packed || r.Lane().Group != 0 {
				t.Errorf("ready: %+v", r)
			}
		}
		slices.SortFunc(out, compareIDs)
		return out
	}
	all := ids(c)
	if got := listed(); !slices.Equal(got, all) || len(lanes) != 4 {
		t.Errorf("%d are listed, in %d lanes", len(got), len(lanes))
	}
	server := attending(t, s, time.Hour)
	if err := s.Take(t.Context(), server, []job.Partition{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	f := engine.Fence{Server: server, Epochs: map[job.Partition]int64{}}
	for p := range 3 {
		f.Epochs[job.Partition(p)] = one[int64](t, d, "SELECT epoch FROM partitions WHERE duty = 1 AND part = $1", p)
	}
	w := session(t, s, time.Hour)
	as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: all[:24]}}, f))
	if len(as) != 24 {
		t.Errorf("leased %d", len(as))
	}
	wantPlaces(t, d, "leased", 5, 64, 0, 0)
	if got := listed(); !slices.Equal(got, all[24:]) {
		t.Errorf("%d are listed behind what was leased", len(got))
	}
	running := must[[]engine.Running](t)(s.Running(t.Context(), nil))
	for _, r := range running {
		if r.Group != of[r.ID] {
			t.Errorf("runs: %+v", r)
		}
	}
	if len(running) != 24 {
		t.Errorf("%d run", len(running))
	}
	// Only who owns the partition leases what is in a group; whoever finds that one is held back unpacks it.
	if as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: all[48:]}}, f)); len(as) != 0 {
		t.Errorf("leased %d of a partition of others", len(as))
	}
	if err := s.Unpack(t.Context(), []job.ExecutionID{all[33], all[0], newID()}); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, d, "SELECT count(*) FROM live WHERE part = 2"); n != 16 {
		t.Errorf("%d are unpacked", n)
	}
	l := c.Executions[33].Ready().Lane()
	if got := must[[]job.Ready](t)(s.Ready(t.Context(), []engine.LaneCursor{{Lane: l}}, 10)); len(got) != 1 || got[0].ID != all[33] || got[0].Packed || got[0].Group != of[all[33]] {
		t.Errorf("in the lane of its group: %+v", got)
	}
	e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, all[30]))
	if e.Group != of[all[30]] {
		t.Errorf("its group is %+v", e.Group)
	}
	finishAll(t, s, as)
	if _, packed, live, past := places(t, d); packed+live != 40 || past != 24 {
		t.Errorf("%d packed, %d live, %d past", packed, live, past)
	}
}

func TestLeasesOfBundlesAreHotUpdates(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := bundle(t, s, 100)
	store(t, s, c)
	as := grant(t, s, ids(c)...)
	var few []job.Attempt
	for i := 0; i < len(as); i += some {
		few = append(few, as[i])
	}
	finishAll(t, s, few) // which is noted in the row
	d := direct(t, s)
	_ = s.Close() // a backend reports its counts at its end, at the latest
	updates, hot := 0, 0
	for updates < 200 {
		// The pause is the server's: it answers when the counts may have come.
		if err := d.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables, pg_sleep(0.02) WHERE relname = 'bundles'").Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if hot != updates {
		t.Errorf("%d of %d updates touched no index, want all", hot, updates)
	}
}

// What is not alike is in rows.
func TestWhatIsNotPacked(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	d := direct(t, s)
	for i, change := range []func(j *job.Job, e *job.Execution){
		func(_ *job.Job, e *job.Execution) { e.UniqueKey = e.ID.String() },
		func(_ *job.Job, e *job.Execution) { e.ExpiresAt = e.DueAt.Add(time.Hour) },
		func(_ *job.Job, e *job.Execution) { e.Stall = time.Second },
		func(_ *job.Job, e *job.Execution) { e.Payload = []byte("1") },
		func(_ *job.Job, e *job.Execution) { e.Status = job.Waiting },
		func(_ *job.Job, e *job.Execution) { e.Trigger = job.ByHand },
		func(_ *job.Job, e *job.Execution) { e.ID = newID() },
		func(j *job.Job, _ *job.Execution) { j.Schedule = job.Schedule{Type: job.Interval, Every: time.Hour} },
	} {
		exec(t, d, "TRUNCATE bundles, live")
		c := bundle(t, s, 4)
		for k := range c.Jobs[:20] {
			change(&c.Jobs[k], &c.Executions[k])
		}
		store(t, s, c)
		wantPlaces(t, d, fmt.Sprint("change ", i), 3, 44, 20, 0)
	}
	exec(t, d, "TRUNCATE bundles, live")
	c := bundle(t, s, 4)
	for i := range c.Executions[:16] {
		if i%4 >= 2 {
			c.Executions[i].Priority = 3
		}
	}
	store(t, s, c)
	wantPlaces(t, d, "in turns", 4, 56, 8, 0)
}
