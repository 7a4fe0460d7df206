package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// dayRead keeps what ReadDay reads.
type dayRead struct {
	all  []engine.Finished
	last int
	logs map[job.ExecutionID][]engine.LogChunk
}

func (d *dayRead) Executions(fs []engine.Finished) error {
	d.last = len(d.all)
	d.all = append(d.all, fs...)
	return nil
}

func (d *dayRead) Log(i int, c engine.LogChunk) error {
	if d.logs == nil {
		d.logs = map[job.ExecutionID][]engine.LogChunk{}
	}
	c.Data = slices.Clone(c.Data)
	id := d.all[d.last+i].Execution.ID
	d.logs[id] = append(d.logs[id], c)
	return nil
}

// archived is about days that move into files.
func archived(t *testing.T, h Harness) {
	f := open(t, h)
	acme := func(j *job.Job, e *job.Execution) { j.Tenant, e.Tenant = "acme", "acme" }
	_, lives := f.add("lives")
	_, dead := f.add("dead")
	_, good := f.add("good")
	_, tried := f.add("tried", acme)
	w, as := f.take(dead.ID, good.ID, tried.ID)
	part := chunk(w, as[1].Lease, job.LogHead{}, 3)
	must(f.AppendLogs(f.ctx, []engine.LogAppend{part}))
	f.report(die(as[0], 3), succeed(as[1]), again(as[2], f.now(), 1))
	_, as = f.take(tried.ID)
	f.report(succeed(as[0]))

	past := f.execution(good.ID)
	day := past.FinishedAt.Truncate(24 * time.Hour)
	other := must(f.Execution(f.ctx, "acme", tried.ID))
	if !other.FinishedAt.Truncate(24 * time.Hour).Equal(day) {
		t.Skip("a day began in the middle of this test")
	}
	tomorrow := day.AddDate(0, 0, 1)
	if got := must(f.FinishedDays(f.ctx, day)); len(got) != 0 {
		t.Errorf("days before it: %v", got)
	}
	if got := must(f.FinishedDays(f.ctx, tomorrow)); len(got) != 1 || !got[0].Equal(day) {
		t.Fatalf("days: %v, want %v", got, day)
	}
	read := func() dayRead {
		var d dayRead
		if err := f.ReadDay(f.ctx, day, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}

	// What is read is what the store would show, and a dead letter stays.
	d := read()
	want := []engine.Finished{
		{Execution: other, Tags: []string{"a", "b c"}, Attempts: must(f.Attempts(f.ctx, "acme", tried.ID)), Events: must(f.Events(f.ctx, "acme", tried.ID))},
		{Execution: past, Tags: []string{"a", "b c"}, Attempts: must(f.Attempts(f.ctx, tenant.Default, good.ID)), Events: must(f.Events(f.ctx, tenant.Default, good.ID))},
	}
	if diff := cmp.Diff(want, d.all, cmpopts.EquateEmpty()); diff != "" || len(want[0].Attempts) != 1 {
		t.Fatalf("read (-want +got):\n%s", diff)
	}
	if got := texts(d.logs[good.ID]); len(d.logs) != 1 || !slices.Equal(got, []string{"1:0", "1:1", "1:2"}) {
		t.Errorf("logs: %v of %d", got, len(d.logs))
	}

	// One holder at a time writes.
	mine, err := f.TakeArchive(f.ctx, newID(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := f.TakeArchive(f.ctx, mine.Holder, time.Hour); err != nil || kept != mine {
		t.Errorf("kept %v, %v; want %v", kept, err, mine)
	}
	if _, err := f.TakeArchive(f.ctx, newID(), time.Hour); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("another: %v", err)
	}
	must(f.TakeArchive(f.ctx, mine.Holder, -time.Second))
	turn, err := f.TakeArchive(f.ctx, newID(), time.Hour)
	if err != nil || turn.Epoch <= mine.Epoch {
		t.Fatalf("%+v, %v", turn, err)
	}
	file := func(name string, k engine.ArchiveKind, check uint32, fs ...engine.Finished) engine.ArchiveFile {
		x := engine.ArchiveFile{
			Name: name, Kind: k, Day: day, Part: 3, Rows: int64(len(fs)), Bytes: 1000, Check: check, SHA256: [32]byte{1, 2, 31: 3}, ReadAt: f.now(), WrittenAt: f.now(),
		}
		for _, y := range fs {
			e := &y.Execution
			x.Shares = append(x.Shares, engine.ArchiveShare{Tenant: e.Tenant, Rows: 1, First: e.ScheduledAt, Last: e.ScheduledAt, Made: e.ID.At(), Until: e.ID.At()})
		}
		return x
	}
	one := file("executions/a", engine.ArchivedExecutions, d.all[0].Check()+d.all[1].Check(), d.all...)
	for _, do := range []func(engine.ArchiveTurn) error{
		func(x engine.ArchiveTurn) error { return f.BeginFile(f.ctx, x, one) },
		func(x engine.ArchiveTurn) error { return f.ProveFile(f.ctx, x, one.Name) },
		func(x engine.ArchiveTurn) error { return f.LeaveDay(f.ctx, x, day) },
		func(x engine.ArchiveTurn) error { return f.SettleFile(f.ctx, x, one.Name) },
		func(x engine.ArchiveTurn) error { return f.RetireFile(f.ctx, x, one.Name) },
		func(x engine.ArchiveTurn) error { return f.StrikeFile(f.ctx, x, one.Name) },
		func(x engine.ArchiveTurn) error { return f.NoteArchive(f.ctx, x, []byte("x")) },
	} {
		if err := do(mine); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("out of turn: %v", err)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(f.NoteArchive(f.ctx, turn, []byte(`{"a":1}`)))
	if got := must(f.ArchiveNote(f.ctx)); string(got) != `{"a":1}` {
		t.Errorf("note %q", got)
	}
	names := func(q engine.FileFilter) (out []string) {
		t.Helper()
		for _, x := range must(f.ArchiveFiles(f.ctx, q)) {
			out = append(out, fmt.Sprint(x.Name, " ", x.State))
		}
		return out
	}
	is := func(q engine.FileFilter, want ...string) {
		t.Helper()
		if got := names(q); !slices.Equal(got, want) {
			t.Errorf("files of %+v: %v, want %v", q, got, want)
		}
	}
	do(f.BeginFile(f.ctx, turn, one))
	if err := f.BeginFile(f.ctx, turn, one); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("the same again: %v", err)
	}
	do(f.BeginFile(f.ctx, turn, file("logs/a", engine.ArchivedLogs, 0, d.all[1])))
	is(engine.FileFilter{}, "executions/a 0", "logs/a 0")

	// A day leaves only what is the same, and only to what was proved.
	if err := f.LeaveDay(f.ctx, turn, day); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("to no proved file: %v", err)
	}
	do(f.ProveFile(f.ctx, turn, "executions/a"))
	do(f.ProveFile(f.ctx, turn, "executions/a"))
	if err := f.ProveFile(f.ctx, turn, "executions/none"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	do(f.ProveFile(f.ctx, turn, "logs/a"))
	do(f.BeginFile(f.ctx, turn, file("executions/b", engine.ArchivedExecutions, 0)))
	do(f.StrikeFile(f.ctx, turn, "executions/b"))
	do(f.StrikeFile(f.ctx, turn, "executions/b"))
	wrong := file("executions/b", engine.ArchivedExecutions, 7)
	do(f.BeginFile(f.ctx, turn, wrong))
	do(f.ProveFile(f.ctx, turn, wrong.Name))
	if err := f.LeaveDay(f.ctx, turn, day); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("another sum: %v", err)
	}
	if got := f.execution(good.ID); got.Status != job.Succeeded {
		t.Errorf("%+v", got)
	}
	do(f.RetireFile(f.ctx, turn, wrong.Name))
	do(f.RetireFile(f.ctx, turn, wrong.Name))
	is(engine.FileFilter{}, "executions/a 1", "executions/b 0", "logs/a 1")
	is(engine.FileFilter{Answering: true})
	do(f.LeaveDay(f.ctx, turn, day))
	is(engine.FileFilter{}, "executions/a 2", "executions/b 0", "logs/a 2")
	do(f.StrikeFile(f.ctx, turn, wrong.Name))
	is(engine.FileFilter{Answering: true}, "executions/a 2", "logs/a 2")
	is(engine.FileFilter{Kind: engine.ArchivedLogs}, "logs/a 2")
	is(engine.FileFilter{Day: tomorrow})
	is(engine.FileFilter{Tenant: "acme"}, "executions/a 2")
	is(engine.FileFilter{Tenant: "acme", Name: "logs/a"})
	is(engine.FileFilter{Tenant: "acme", From: other.ScheduledAt, Until: other.ScheduledAt, Made: other.ID.At(), Day: day}, "executions/a 2")
	is(engine.FileFilter{Tenant: "acme", From: other.ScheduledAt.Add(time.Microsecond)})
	is(engine.FileFilter{Tenant: "acme", Until: other.ScheduledAt.Add(-time.Microsecond)})
	is(engine.FileFilter{Tenant: "acme", Made: other.ID.At().Add(time.Millisecond)})
	one.State = engine.FileAnswers
	if diff := cmp.Diff(one.Shares[:1], must(f.ArchiveFiles(f.ctx, engine.FileFilter{Tenant: "acme"}))[0].Shares); diff != "" {
		t.Errorf("its share (-want +got):\n%s", diff)
	}
	one.Shares = nil
	if diff := cmp.Diff(one, must(f.ArchiveFiles(f.ctx, engine.FileFilter{Name: one.Name}))[0]); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}

	// What came later stays, and so does what may not move. Each step may be repeated.
	until := f.now()
	x := f.rerunOf(past, job.ByRetry)
	run := engine.Rerun{Executions: []job.Execution{x}}
	for range 2 {
		do(f.DropArchived(f.ctx, []job.ExecutionID{good.ID, tried.ID}, until))
	}
	do(f.DropArchived(f.ctx, nil, until))
	for _, e := range []job.Execution{past, other} {
		if _, err := f.Execution(f.ctx, e.Tenant, e.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("it is still there: %v", err)
		}
		if _, err := f.Logs(f.ctx, e.Tenant, e.ID, engine.LogQuery{Chunks: 1}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("its log is still there: %v", err)
		}
	}
	if f.execution(dead.ID).Status != job.Failed || f.execution(lives.ID).Status != job.Pending {
		t.Error("what may not move has moved")
	}
	if n := len(must(f.DeadLetters(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 10})).DeadLetters); n != 1 {
		t.Errorf("%d dead letters", n)
	}
	if got := must(f.FinishedDays(f.ctx, tomorrow)); len(got) != 0 {
		t.Errorf("days that are left: %v", got)
	}
	do(f.SettleFile(f.ctx, turn, one.Name))
	do(f.SettleFile(f.ctx, turn, one.Name))
	is(engine.FileFilter{Answering: true}, "executions/a 3", "logs/a 2")
	if err := f.RetireFile(f.ctx, turn, "logs/a"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("one that is not settled: %v", err)
	}
	hold := f.hold(good.Job, "a case")
	must(f.AddHold(f.ctx, hold, 4, nil))
	var held *engine.Held
	if err := f.RetireFile(f.ctx, turn, one.Name); !errors.As(err, &held) || held.Hold != hold {
		t.Errorf("one with something that is on hold: %v", err)
	}
	is(engine.FileFilter{Answering: true}, "executions/a 3", "logs/a 2")
	must(f.DeleteHold(f.ctx, hold.Tenant, hold.ID, nil))
	do(f.RetireFile(f.ctx, turn, one.Name))
	must(f.AddHold(f.ctx, hold, 4, nil)) // too late for it
	do(f.RetireFile(f.ctx, turn, one.Name))
	is(engine.FileFilter{}, "executions/a 4", "logs/a 2")
	is(engine.FileFilter{Answering: true}, "logs/a 2")

	// An archived execution can be run again, if the caller says whose it was.
	if got := must(f.Rerun(f.ctx, tenant.Default, run)); len(got.Added) != 0 {
		t.Errorf("run again though nobody knows it: %v", got)
	}
	run.Archived = map[job.ExecutionID]job.ID{past.ID: past.Job}
	for range 2 {
		if got := must(f.Rerun(f.ctx, tenant.Default, run)); !slices.Equal(got.Added, []job.ExecutionID{x.ID}) {
			t.Errorf("added %v", got)
		}
	}
	if got := must(f.LateEvents(f.ctx, tenant.Default, past.ID)); len(got) != 1 || got[0].Kind != job.EventRerun {
		t.Errorf("late events: %+v", got)
	}
	if got := must(f.LateEvents(f.ctx, "acme", past.ID)); len(got) != 0 {
		t.Errorf("another tenant's: %+v", got)
	}
}

// archivedBesideHolds is about holds that come while files are retired: a file that answers when a hold is answered goes on to.
func archivedBesideHolds(t *testing.T, h Harness) {
	f := open(t, h)
	j := f.manual("held")
	turn := must(f.TakeArchive(f.ctx, newID(), time.Hour))
	day := f.now().Truncate(24*time.Hour).AddDate(0, 0, -9)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for i := range 30 {
		x := engine.ArchiveFile{Name: fmt.Sprint("logs/", i), Kind: engine.ArchivedLogs, Day: day, Part: i, Rows: 1, Bytes: 1000, ReadAt: day, WrittenAt: day}
		x.Shares = []engine.ArchiveShare{{Tenant: tenant.Default, Rows: 1, First: day, Last: day, Made: day, Until: day}}
		do(f.BeginFile(f.ctx, turn, x))
		do(f.ProveFile(f.ctx, turn, x.Name))
		names = append(names, x.Name)
	}
	do(f.LeaveDay(f.ctx, turn, day))
	for _, name := range names {
		do(f.SettleFile(f.ctx, turn, name))
	}
	done := make(chan error, 1)
	go func() {
		for _, name := range names {
			var held *engine.Held
			if err := f.RetireFile(f.ctx, turn, name); err != nil && !errors.As(err, &held) {
				done <- err
				return
			}
		}
		done <- nil
	}()
	must(f.AddHold(f.ctx, f.hold(j.ID, "now"), 9, nil))
	there := must(f.ArchiveFiles(f.ctx, engine.FileFilter{Answering: true}))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, x := range there {
		if now := must(f.ArchiveFiles(f.ctx, engine.FileFilter{Name: x.Name})); now[0].State != engine.FileSettled {
			t.Errorf("%s was retired after its tenant had a hold", x.Name)
		}
	}
}
