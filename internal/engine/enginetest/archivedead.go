package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// moves plays a mover: it reads the day of its executions, and leaves that to a file of what it has read.
type moves struct {
	fixture
	turn engine.ArchiveTurn
	day  time.Time
	n    int
	left map[job.ExecutionID]bool // what files answer for
}

func (m *moves) read() dayRead {
	m.Helper()
	var d dayRead
	m.check(m.ReadDay(m.ctx, m.day, &d))
	return d
}

// leave leaves the day to a file of what was read. If that fails, nobody knows of the file.
func (m *moves) leave(d dayRead) error {
	m.Helper()
	m.n++
	file := engine.ArchiveFile{
		Name: fmt.Sprint("executions/", m.n), Kind: engine.ArchivedExecutions, Day: m.day, Part: m.n, Rows: int64(len(d.all)), Bytes: 1, ReadAt: m.now(), WrittenAt: m.now(),
	}
	for i := range d.all {
		file.Check += d.all[i].Check()
	}
	m.check(m.BeginFile(m.ctx, m.turn, file))
	m.check(m.ProveFile(m.ctx, m.turn, file.Name))
	if err := m.LeaveDay(m.ctx, m.turn, m.day); err != nil {
		m.check(m.StrikeFile(m.ctx, m.turn, file.Name))
		return err
	}
	var ids []job.ExecutionID
	for i := range d.all {
		id := d.all[i].Execution.ID
		m.left[id] = true
		ids = append(ids, id)
	}
	m.check(m.DropArchived(m.ctx, ids, file.ReadAt))
	return nil
}

func (m *moves) deadLetters() (ids []job.ExecutionID) {
	m.Helper()
	for _, d := range must(m.DeadLetters(m.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 100})).DeadLetters {
		ids = append(ids, d.ID)
	}
	return ids
}

// archivedBesideDeadLetters is about dead letters that come and go while their day moves: each execution is in the store or in a file that
// answers, and what is a dead letter is in the store.
func archivedBesideDeadLetters(t *testing.T, h Harness) {
	f := open(t, h)
	const n = 8
	var ids []job.ExecutionID
	for i := range n + 3 {
		_, e := f.add(fmt.Sprint("job ", i))
		ids = append(ids, e.ID)
	}
	_, as := f.take(ids...)
	good, late, first, rest := as[0], as[1], as[2].Execution, ids[3:]
	f.report(succeed(good))
	for _, a := range as[2:] {
		f.report(die(a, 3))
	}
	m := &moves{fixture: f, turn: must(f.TakeArchive(f.ctx, newID(), time.Hour)), day: f.execution(good.Execution).FinishedAt.Truncate(24 * time.Hour), left: map[job.ExecutionID]bool{}}

	// One is discarded after the read, so it may move and no file has it.
	d := m.read()
	if len(d.all) != 1 {
		t.Fatalf("%d may move, want 1", len(d.all))
	}
	f.discard(f.ctx, tenant.Default, first)
	if err := m.leave(d); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("a dead letter was discarded meanwhile: %v", err)
	}
	if !f.has(good.Execution) || !f.has(first) {
		t.Fatal("an execution is lost")
	}

	// One is made after the read: it stays, and can be redriven.
	d = m.read()
	f.report(die(late, 3))
	if !f.execution(late.Execution).FinishedAt.Truncate(24 * time.Hour).Equal(m.day) {
		t.Skip("a day began in the middle of this test")
	}
	f.check(m.leave(d))
	if dead := m.deadLetters(); len(dead) != n+1 || dead[0] != late.Execution || m.left[late.Execution] || !m.left[first] {
		t.Errorf("dead letters %v, left %v", dead, m.left)
	}
	again := f.rerunOf(f.execution(late.Execution), job.ByRedrive)
	if got := must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{again}, DeadOnly: true})); len(got.Added) != 1 {
		t.Errorf("redriven: %+v", got)
	}

	// Others are discarded while the day leaves.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, id := range rest {
			f.discard(f.ctx, tenant.Default, id)
		}
	}()
	for over := false; ; {
		d := m.read()
		err := m.leave(d)
		if err != nil && !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnavailable) {
			t.Fatal(err)
		}
		if over && err == nil {
			break
		}
		select {
		case <-done:
			over = true
		default:
		}
	}
	for _, id := range ids {
		if stays := f.has(id); stays == m.left[id] {
			t.Errorf("%v is in the store: %t, and in a file: %t", id, stays, m.left[id])
		}
	}
}
