package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
	"github.com/carillon-jobs/carillon/internal/history"
)

// world is a store with finished executions of two tenants, and a folder for files.
type world struct {
	*testing.T
	store engine.Store
	root  string
	files blob.Store
	ids   map[tenant.ID][]job.ExecutionID
	dead  job.ExecutionID
	log   bytes.Buffer
}

type now func(context.Context) (time.Time, error)

func (n now) Now() time.Time {
	t, err := n(context.Background())
	if err != nil {
		panic(err)
	}
	return t
}

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func build(t *testing.T, n int) *world {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "carillon.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return buildOn(t, s, n)
}

func buildOn(t *testing.T, s engine.Store, n int) *world {
	t.Helper()
	w := &world{T: t, store: s, root: t.TempDir(), ids: map[tenant.ID][]job.ExecutionID{}}
	w.files = folder.New(w.root)
	w.do(s.Migrate(t.Context()))
	id := job.WorkerID(newID())
	at, err := s.Now(t.Context())
	w.do(err)
	w.do(s.Register(t.Context(), job.Worker{ID: id, Host: "h", Version: "v", Capacity: 1000, StartedAt: at}, time.Hour))
	for i := range n {
		of := tenant.ID("acme")
		if i%3 == 0 {
			of = "other"
		}
		w.run(id, of, i)
	}
	return w
}

func (w *world) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// run creates an execution and lets it end.
func (w *world) run(worker job.WorkerID, of tenant.ID, i int) {
	w.Helper()
	w.runAs(newID(), worker, of, i)
}

func (w *world) runAs(id job.ID, worker job.WorkerID, of tenant.ID, i int) {
	w.Helper()
	ctx := w.Context()
	at, err := w.store.Now(ctx)
	w.do(err)
	j := job.Job{
		ID: id, Tenant: of, State: job.Active, CreatedAt: at, UpdatedAt: at, Revision: 1,
		Definition: job.Definition{
			Name: fmt.Sprint("job ", i%4), Schedule: job.Schedule{Type: job.Immediate}, Retry: job.DefaultRetry, Priority: 5, Tags: []string{fmt.Sprint("tag", i%2)},
			Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Minute}, Payload: []byte(`{"n":1}`),
		},
	}
	e := job.Execution{
		ID: job.ExecutionID(j.ID), Job: j.ID, Tenant: of, Status: job.Pending, Trigger: job.ByAPI, ScheduledAt: at.Add(-time.Duration(i%7) * time.Hour), DueAt: at,
		MaxAttempts: 4, Priority: 5, Partition: job.PartitionOf(j.ID), Class: j.Class(),
	}
	_, err = w.store.CreateJobs(ctx, []engine.Creation{{Tenant: of, Jobs: []job.Job{j}, Executions: []job.Execution{e}}})
	w.do(err)
	lease := func() job.Attempt {
		as, err := w.store.Lease(ctx, []engine.Grant{{Worker: worker, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{})
		w.do(err)
		if len(as) != 1 {
			w.Fatalf("leased %d", len(as))
		}
		return as[0]
	}
	a := lease()
	boom := &job.Error{Type: job.HTTPError, Message: fmt.Sprint("answered 503 to ", i), HTTPStatus: 503}
	if i%5 == 1 { // a failed attempt before it
		_, err = w.store.Finish(ctx, []job.Finish{{
			Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: boom, Retryable: true}, Then: job.Transition{Move: job.Again, Status: job.Retrying, DueAt: at, Tries: 1},
		}})
		w.do(err)
		a = lease()
	}
	if i%4 == 2 {
		lines := []job.LogLine{{At: at, Stream: job.LogStdout, Text: fmt.Sprint("line of ", i)}, {At: at, Stream: job.LogStderr, Text: "second"}}
		_, err := w.store.AppendLogs(ctx, []engine.LogAppend{{Lease: a.Lease, Worker: worker, To: job.LogHead{Lines: 2, Bytes: 40}, Data: engine.EncodeLog(lines)}})
		w.do(err)
	}
	end := job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded, Result: fmt.Appendf(nil, `{"i":%d}`, i)}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}
	if i == 8 {
		end = job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: boom}, Then: job.Transition{Move: job.Died, Status: job.Failed, Tries: 1}}
		w.dead = e.ID
	}
	_, err = w.store.Finish(ctx, []job.Finish{end})
	w.do(err)
	w.ids[of] = append(w.ids[of], e.ID)
}

func (w *world) mover(s mover.Store, files blob.Store) *mover.Mover {
	return &mover.Mover{
		Store: s, Files: files, Clock: now(w.store.Now), Holder: newID(), Hot: -1, Layout: archive.Shared, Spool: w.TempDir(), PartRows: 20,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
}

func (w *world) tiers() *history.Tiers {
	return history.Over(w.store, w.files, slog.New(slog.NewTextHandler(&w.log, nil)))
}

// seen is all that a tenant can see of its executions.
type seen struct {
	lists  map[string][]job.Execution
	single map[job.ExecutionID]engine.Finished
	logs   map[job.ExecutionID][]string
	lines  int64
}

func (w *world) look(s engine.Store, of tenant.ID) seen {
	w.Helper()
	ctx := w.Context()
	out := seen{map[string][]job.Execution{}, map[job.ExecutionID]engine.Finished{}, map[job.ExecutionID][]string{}, 0}
	one := w.ids[of][len(w.ids[of])/2]
	for name, f := range map[string]engine.ExecutionFilter{
		"all": {}, "failed": {Statuses: []job.Status{job.Failed}}, "job": {Job: job.ID(one)}, "text": {Text: "503"}, "tag": {Tag: "tag1"}, "name": {JobName: "job 2"},
		"live": {Statuses: []job.Status{job.Pending}}, "early": {Until: now(w.store.Now).Now().Add(-4 * time.Hour)}, "kept": {Kept: now(w.store.Now).Now().Add(time.Hour)},
	} {
		f.Tenant = of
		for p := (engine.Page{Limit: 7, Bounded: true}); ; {
			page, err := s.FindExecutions(ctx, f, p)
			w.do(err)
			if len(page.Executions) > 7 || len(page.Unread) > 0 {
				w.Fatalf("%s: a page of %d, unread %v", name, len(page.Executions), page.Unread)
			}
			out.lists[name] = append(out.lists[name], page.Executions...)
			if n := int64(len(w.ids[of])); name == "all" && page.Total.Count != n && !page.Total.Estimate {
				w.Fatalf("a total of %+v, want %d", page.Total, n)
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
	}
	for _, id := range w.ids[of] {
		e, err := s.Execution(ctx, of, id)
		w.do(err)
		x := engine.Finished{Execution: e}
		x.Attempts, err = s.Attempts(ctx, of, id)
		w.do(err)
		x.Events, err = s.Events(ctx, of, id)
		w.do(err)
		if len(x.Attempts) == 0 { // stores differ in how they say none
			x.Attempts = nil
		}
		if len(x.Events) == 0 {
			x.Events = nil
		}
		out.single[id] = x
		chunks, err := s.Logs(ctx, of, id, engine.LogQuery{Chunks: 10})
		w.do(err)
		for _, c := range chunks {
			lines, err := engine.DecodeLog(c.Data)
			w.do(err)
			for _, l := range lines {
				out.logs[id] = append(out.logs[id], l.Text)
			}
		}
		n, err := s.LogLines(ctx, of, id, 0)
		w.do(err)
		out.lines += n
		if _, err := s.Execution(ctx, "nobody", id); !errors.Is(err, engine.ErrNotFound) {
			w.Fatalf("another tenant: %v", err)
		}
	}
	return out
}

func (w *world) same(got, want seen, when string) {
	w.Helper()
	for name, all := range want.lists {
		if !reflect.DeepEqual(got.lists[name], all) {
			w.Fatalf("%s: the list %q has %d executions, want %d:\n%+v\n%+v", when, name, len(got.lists[name]), len(all), got.lists[name], all)
		}
	}
	if !reflect.DeepEqual(got, want) {
		w.Fatalf("%s: %+v\nwant %+v", when, got, want)
	}
}

func (w *world) left(of tenant.ID) (n int) {
	w.Helper()
	page, err := w.store.FindExecutions(w.Context(), engine.ExecutionFilter{Tenant: of}, engine.Page{Limit: 1000})
	w.do(err)
	return len(page.Executions)
}

// What moves is seen as it was: in lists of every kind, by id, with attempts, events and logs.
func TestWhatMovesIsSeenAsItWas(t *testing.T) {
	t.Parallel()
	for _, layout := range []archive.Layout{archive.Shared, archive.PerTenant} {
		t.Run("SQLite/"+string(layout), func(t *testing.T) { t.Parallel(); moves(t, build(t, 70), layout) })
	}
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); moves(t, buildOn(t, storetest.Postgres(t), 70), archive.Shared) })
}

func moves(t *testing.T, w *world, layout archive.Layout) {
	t.Helper()
	acme, other := w.look(w.store, "acme"), w.look(w.store, "other")
	w.same(w.look(w.tiers(), "acme"), acme, "before")
	stats, err := w.store.Stats(t.Context(), "acme", []job.ID{job.ID(w.ids["acme"][3])})
	w.do(err)
	m := w.mover(w.store, w.files)
	m.Layout = layout
	if next, err := m.Tick(t.Context()); err != nil || next < time.Minute {
		t.Fatal(next, err)
	}
	w.same(w.look(w.tiers(), "acme"), acme, "after")
	w.same(w.look(w.tiers(), "other"), other, "after")
	if a, b := w.left("acme"), w.left("other"); a != 1 || b != 0 { // a dead letter
		t.Errorf("%d and %d are left in the store: %s", a, b, w.log.String())
	}
	files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{})
	w.do(err)
	for _, f := range files {
		if f.State != engine.FileSettled || layout == archive.PerTenant != strings.Contains(f.Name, "tenant=") {
			t.Errorf("%+v", f)
		}
	}
	if len(files) < 4 {
		t.Errorf("%d files", len(files))
	}
	note, err := mover.ReadNote(t.Context(), w.store)
	if err != nil || note.Written != 69 || note.Error != "" || note.Oldest != nil {
		t.Errorf("%+v, %v", note, err)
	}
	// Again, there is nothing to do.
	if _, err := m.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{}); err != nil || len(again) != len(files) {
		t.Errorf("%d files, %v", len(again), err)
	}
	// A one-off job still says how it went.
	after, err := w.tiers().Stats(t.Context(), "acme", []job.ID{job.ID(w.ids["acme"][3])})
	w.do(err)
	if !reflect.DeepEqual(after, stats) || stats[0].Total != 1 {
		t.Errorf("statistics %+v, want %+v", after, stats)
	}
	// It can be run again, which is told where it is looked at.
	j := w.ids["acme"][3]
	old, err := w.tiers().Execution(t.Context(), "acme", j)
	w.do(err)
	x := old
	x.ID, x.RetryOf, x.Status, x.Trigger, x.Class = newID(), old.ID, job.Pending, job.ByRetry, "x"
	got, err := w.tiers().Rerun(t.Context(), "acme", engine.Rerun{Executions: []job.Execution{x}})
	if err != nil || len(got.Added) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	events, err := w.tiers().Events(t.Context(), "acme", j)
	if err != nil || !slices.ContainsFunc(events, func(e job.Event) bool { return e.Kind == job.EventRerun }) {
		t.Errorf("%+v, %v", events, err)
	}
}

// A file that is gone or damaged is named, and the rest is served.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	w := build(t, 70)
	if _, err := w.mover(w.store, w.files).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{Kind: engine.ArchivedExecutions, Tenant: "acme"})
	w.do(err)
	if len(files) < 3 {
		t.Fatalf("%d files", len(files))
	}
	w.do(os.Truncate(filepath.Join(w.root, files[0].Name), files[0].Bytes/2))
	w.do(os.Remove(filepath.Join(w.root, files[1].Name)))
	page, err := w.tiers().FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: "acme"}, engine.Page{Limit: 1000})
	w.do(err)
	want := []string{files[0].Name, files[1].Name}
	slices.Sort(page.Unread)
	slices.Sort(want)
	if missing := int(files[0].Shares[0].Rows + files[1].Shares[0].Rows); !slices.Equal(page.Unread, want) || len(page.Executions) != len(w.ids["acme"])-missing {
		t.Errorf("%d executions, unread %v; want all but %d, and %v", len(page.Executions), page.Unread, missing, want)
	}
	if !strings.Contains(w.log.String(), files[0].Name) {
		t.Error("the log does not name it")
	}
	// By its id: it is found, or may be in a file that cannot be read.
	found, unknown := 0, 0
	for _, id := range w.ids["acme"] {
		switch _, err := w.tiers().Execution(t.Context(), "acme", id); {
		case err == nil:
			found++
		case errors.Is(err, engine.ErrUnavailable):
			unknown++
		default:
			t.Error(err)
		}
	}
	if found != len(page.Executions) || unknown == 0 {
		t.Errorf("%d are found and %d may be", found, unknown)
	}
}

// away is a place that cannot be reached.
type away struct{ blob.Store }

func (a away) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, fmt.Errorf("read: %w", blob.ErrUnavailable)
}

func (a away) Put(context.Context, blob.Object, io.ReaderAt) error {
	return fmt.Errorf("write: %w", blob.ErrUnavailable)
}

// A bucket that is away delays what is archived, says so, and drops nothing; what is in the store is served.
func TestAPlaceThatIsAway(t *testing.T) {
	t.Parallel()
	w := build(t, 70)
	acme := w.look(w.store, "acme")
	m := w.mover(w.store, away{w.files})
	next, err := m.Tick(t.Context())
	note, _ := mover.ReadNote(t.Context(), w.store)
	if err != nil || next > 2*time.Minute || !strings.Contains(note.Error, "cannot be reached") || note.Oldest == nil {
		t.Errorf("next in %v, %v; %+v", next, err, note)
	}
	if lag := (mover.Note{Oldest: note.Oldest}).Lag(7, note.Oldest.AddDate(0, 0, 10)); lag != 48*time.Hour {
		t.Errorf("a lag of %v", lag)
	}
	w.same(w.look(w.tiers(), "acme"), acme, "while it is away")
	m.Files = w.files
	if _, err := m.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.same(w.look(w.tiers(), "acme"), acme, "when it is back")
	gone := history.Over(w.store, away{w.files}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if _, err := gone.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: "other"}, engine.Page{Limit: 5}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("with nothing to show: %v", err)
	}
	if _, err := gone.Execution(t.Context(), "acme", w.ids["acme"][0]); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("by id: %v", err)
	}
	if e, err := gone.Execution(t.Context(), "acme", w.dead); err != nil || e.Status != job.Failed {
		t.Errorf("what is in the store: %v", err)
	}
}

// Two movers at once do it once.
func TestTwoMovers(t *testing.T) {
	t.Parallel()
	w := build(t, 50)
	acme := w.look(w.store, "acme")
	done := make(chan error, 2)
	for range 2 {
		m := w.mover(w.store, w.files)
		m.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
		go func() {
			_, err := m.Tick(context.WithoutCancel(t.Context()))
			done <- err
		}()
	}
	w.do(errors.Join(<-done, <-done))
	w.same(w.look(w.tiers(), "acme"), acme, "after")
	if note, err := mover.ReadNote(t.Context(), w.store); err != nil || note.Written != 49 {
		t.Errorf("%+v, %v", note, err)
	}
}

// A file is deleted when nobody keeps anything of it, and not while one tenant does.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := build(t, 30)
	m := w.mover(w.store, w.files)
	tickWith := func(q quotas, all ...tenant.Tenant) (left int) {
		t.Helper()
		q.all = all
		m.Store = q
		if _, err := m.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if note, err := mover.ReadNote(t.Context(), w.store); err != nil || note.Error != "" {
			t.Fatalf("%+v, %v", note, err)
		}
		objects, err := w.files.List(t.Context(), "", "", 100)
		w.do(err)
		files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{})
		w.do(err)
		if len(files) != len(objects) {
			t.Errorf("%d objects of %d files", len(objects), len(files))
		}
		return len(files)
	}
	tick := func(all ...tenant.Tenant) int { return tickWith(quotas{Store: w.store}, all...) }
	of := func(id tenant.ID, days int) tenant.Tenant {
		return tenant.Tenant{ID: id, Tier: "enterprise", Overrides: tenant.Overrides{HistoryDays: &days}}
	}
	some := tick(of("acme", -1), of("other", -1))
	if some == 0 {
		t.Fatal("nothing has moved")
	}
	m.Clock = now(func(ctx context.Context) (time.Time, error) {
		at, err := w.store.Now(ctx)
		return at.AddDate(0, 0, 10), err
	})
	cut := of("other", 1)
	cut.CutAt = m.Clock.Now().Add(-time.Hour) // perhaps by mistake
	for name, all := range map[string][]tenant.Tenant{"one keeps it": {of("acme", 1), of("other", 30)}, "one is unknown": {of("acme", 1)}, "one was cut lately": {of("acme", 1), cut}} {
		if n := tick(all...); n < 1 || n > some {
			t.Errorf("%s: %d files are left of %d", name, n, some)
		}
	}
	keep := quotas{Store: w.store, holds: []tenant.Hold{{Tenant: "acme"}}}
	if n := tickWith(keep, of("acme", 1), of("other", 1)); n < 1 {
		t.Error("what is on hold was deleted")
	}
	m.Retention = 1 // of the installation; it was for ever
	plain := []tenant.Tenant{{ID: "acme", Tier: tenant.Enterprise}, {ID: "other", Tier: tenant.Enterprise}}
	if n := tick(plain...); n < 1 {
		t.Error("what the installation no longer keeps was deleted at once")
	}
	m.Clock = now(func(ctx context.Context) (time.Time, error) {
		at, err := w.store.Now(ctx)
		return at.AddDate(0, 0, 17), err
	})
	if n := tick(plain...); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

type quotas struct {
	engine.Store
	all   []tenant.Tenant
	holds []tenant.Hold
}

func (q quotas) Holds(context.Context, tenant.ID) ([]tenant.Hold, error) { return q.holds, nil }

func (q quotas) Tenants(context.Context) ([]tenant.Tenant, error) { return q.all, nil }

// What moved before its job had a retention of its own is hidden like the rest.
func TestArchivedIsHiddenByAJobsRetention(t *testing.T) {
	t.Parallel()
	w := build(t, 70)
	if _, err := w.mover(w.store, w.files).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := now(w.store.Now).Now()
	kept := 0
	for i, id := range w.ids["acme"] {
		if i%3 == 0 {
			kept++
			continue
		}
		j, err := w.store.Job(t.Context(), "acme", engine.Ref{ID: job.ID(id)})
		w.do(err)
		j.Retention = job.Retention{Days: 2, FailedDays: 2}
		_, err = w.store.UpdateJob(t.Context(), "acme", engine.Update{Job: j, AsOf: at, Retained: true})
		w.do(err)
	}
	for days, want := range map[int]int{2: len(w.ids["acme"]), 3: kept} {
		got := 0
		for p := (engine.Page{Limit: 7}); ; {
			page, err := w.tiers().FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: "acme", OwnAsOf: at.AddDate(0, 0, days)}, p)
			w.do(err)
			if got += len(page.Executions); page.Next != "" && !page.Partial && len(page.Executions) != 7 {
				t.Errorf("after %d days a page has %d", days, len(page.Executions))
			}
			if p.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		if got != want {
			t.Errorf("after %d days %d are seen, want %d", days, got, want)
		}
	}
}
