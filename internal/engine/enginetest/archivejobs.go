package enginetest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// archivedKeepJobs is about jobs of which only files have something: they stay as long as that is kept.
func archivedKeepJobs(t *testing.T, h Harness) {
	f := open(t, h)
	// All but the last were made two days before they ended.
	made := f.now().AddDate(0, 0, -2)
	early := func(j *job.Job) {
		first := engine.FirstID(made)
		copy(j.ID[:6], first[:6])
		j.CreatedAt, j.UpdatedAt = made, made
	}
	own := func(j *job.Job, e *job.Execution) {
		early(j)
		e.ID, e.Job = job.ExecutionID(j.ID), j.ID
	}
	once, fire := f.add("once", own)
	again, first := f.add("again", own)
	deleted := f.manual("deleted", early)
	last := f.triggered(deleted)
	today, late := f.add("today")
	_, as := f.take(fire.ID, first.ID, last.ID, late.ID)
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: deleted.ID, AsOf: made}))
	for _, a := range as {
		f.report(succeed(a))
	}
	rerun := f.rerunOf(f.execution(first.ID), job.ByHand)
	must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{rerun}}))
	_, as = f.take(rerun.ID)
	f.report(succeed(as[0]))
	day := f.execution(fire.ID).FinishedAt.Truncate(24 * time.Hour)
	if !f.execution(rerun.ID).FinishedAt.Truncate(24 * time.Hour).Equal(day) {
		t.Skip("a day began in the middle of this test")
	}

	m := &moves{fixture: f, turn: must(f.TakeArchive(f.ctx, newID(), time.Hour)), day: day, left: map[job.ExecutionID]bool{}}
	d := m.read()
	if err := m.leave(d); err != nil || len(d.all) != 5 {
		t.Fatalf("%d have moved: %v", len(d.all), err)
	}
	jobs := []job.Job{once, again, deleted, today}
	if f.has(fire.ID) {
		t.Fatal("the store still has what files have")
	}
	f.forget(tenant.Default, day)
	for _, j := range jobs {
		if !f.knows(j.ID) {
			t.Errorf("%q is gone while files have something of it", j.Name)
		}
	}
	if s := must(f.Stats(f.ctx, tenant.Default, []job.ID{once.ID, again.ID})); s[0].Total != 0 || s[1].Total != 1 {
		t.Errorf("what has moved counts: %+v", s)
	}
	f.forget(tenant.Default, day.AddDate(0, 0, 1))
	for _, j := range jobs {
		if f.knows(j.ID) {
			t.Errorf("%q is there though nothing of it is kept", j.Name)
		}
	}
}

// archivedSums is about sums that do not fit into their bits, as those of a day of very many executions: it leaves the store like others.
func archivedSums(t *testing.T, h Harness) {
	f := open(t, h)
	_, e := f.done("once")
	m := &moves{fixture: f, turn: must(f.TakeArchive(f.ctx, newID(), time.Hour)), day: f.execution(e.ID).FinishedAt.Truncate(24 * time.Hour)}
	d := m.read()
	file := func(name string, rows int64, check uint32) {
		x := engine.ArchiveFile{Name: name, Kind: engine.ArchivedExecutions, Day: m.day, Rows: rows, Bytes: 1, Check: check, ReadAt: f.now(), WrittenAt: f.now()}
		m.check(f.BeginFile(f.ctx, m.turn, x))
		m.check(f.ProveFile(f.ctx, m.turn, x.Name))
	}
	file("executions/a", 0, math.MaxUint32)
	file("executions/b", 0, math.MaxUint32)
	file("executions/c", 1, d.all[0].Check()+1) // 2 are missing
	if err := f.LeaveDay(f.ctx, m.turn, m.day); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("another sum: %v", err)
	}
	m.check(f.StrikeFile(f.ctx, m.turn, "executions/c"))
	file("executions/d", 1, d.all[0].Check()+2)
	m.check(f.LeaveDay(f.ctx, m.turn, m.day))
}
