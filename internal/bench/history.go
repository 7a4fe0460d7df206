package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/history"
)

// HistoryOptions are the options of History.
type HistoryOptions struct {
	Options
	Executions int // of the day that moves
}

// Goals for the move of a day, and for reading what has moved.
const (
	moveRate, moveRateAim     = 60_000.0, 150_000.0 // executions a second
	moveShare, moveShareAim   = 15.0, 8.0           // % of what the store took
	moveHeap                  = 200.0               // MB
	moveDelay, moveDelayAim   = 2.0, 1.5            // p99 of creates meanwhile, times that without
	archPage, archPageAim     = 1000.0, 500.0       // ms
	archOne, archOneAim       = 300.0, 150.0
	archSearch, archSearchAim = 5000.0, 2500.0
)

const (
	createRate = 100             // jobs created a second, before the move and during it
	createFor  = 5 * time.Second // before
	ahead      = 48 * time.Hour  // the clock of the move: today is past
)

// later is a clock that is ahead.
type later struct{ clock.Clock }

func (l later) Now() time.Time { return l.Clock.Now().Add(ahead) }

// History stores executions that finished, moves their day to files while jobs are created, and reads what has moved.
func History(ctx context.Context, o HistoryOptions) (GoalReport, error) {
	name := fmt.Sprintf("the move of a day of %s executions", thousands(o.Executions))
	rep, err := measureOver(ctx, o.Options, name, NewRig, func(ctx context.Context, r *Rig, rep *GoalReport) (Tally, error) {
		dir, err := os.MkdirTemp("", "carillon-history-")
		if err != nil {
			return Tally{}, err
		}
		defer os.RemoveAll(dir)
		b := &historyBench{HistoryOptions: o, rig: r, rep: rep, files: folder.New(filepath.Join(dir, "files")), spool: dir}
		return b.run(ctx)
	})
	rep.moves = true
	rep.Config = map[string]any{"executions": o.Executions, "jobs": o.Jobs, "samples": o.Samples, "batch": o.Batch, "slots": o.Slots}
	return rep, err
}

// historyBench is one run of the benchmark of history.
type historyBench struct {
	HistoryOptions
	rig   *Rig
	rep   *GoalReport
	files blob.Store
	spool string
}

func (b *historyBench) run(ctx context.Context) (t Tally, err error) {
	before, err := b.rig.store.Sizes(ctx)
	if err != nil {
		return t, err
	}
	s, err := b.load(ctx)
	if err != nil {
		return t, err
	}
	after, err := b.rig.store.Sizes(ctx)
	if err != nil {
		return t, err
	}
	if err := b.move(ctx); err != nil {
		return t, err
	}
	office := mover.Office{Store: b.rig.store, Files: b.files, Clock: later{b.rig.Clock}}
	status, err := office.Status(ctx)
	if err != nil {
		return t, err
	}
	var bytes, moved int64
	for _, d := range status.Days {
		bytes, moved = bytes+d.Bytes, moved+d.Executions
	}
	b.rep.note("bytes_per_execution", "bytes of the files for each execution", round(float64(bytes)/float64(moved), 1), "B")
	b.rep.most("share", "size of the files, in what the store took", round(100*float64(bytes)/float64(after.Bytes-before.Bytes), 1), "%", moveShare, moveShareAim)
	t, err = b.read(ctx, s)
	if err != nil {
		return t, err
	}
	t.Accepted += int(moved)
	// What was created meanwhile runs now.
	defer b.rig.Work()()
	if _, err := b.rig.Wait(ctx); err != nil {
		return t, err
	}
	made, err := b.rig.Check(ctx)
	return Tally{Accepted: t.Accepted + made.Accepted, Lost: t.Lost + made.Lost, Doubled: t.Doubled + made.Doubled}, err
}

// load stores the executions of the day.
func (b *historyBench) load(ctx context.Context) (*stock, error) {
	var others [2]tenant.ID
	for i := range others {
		var err error
		if others[i], err = b.rig.tenant(ctx, fmt.Sprintf("bench other %d", i+1), tenant.Pro); err != nil {
			return nil, err
		}
	}
	s := newStock(b.rig, b.Jobs, b.Executions, others)
	s.waiting = 0 // all of it finishes
	defer s.work()()
	defer watch(b.Options, "load", b.Executions, func() int { return int(s.ended.Load()) })()
	return s, s.load(ctx)
}

// move moves everything that has finished, while jobs are created.
func (b *historyBench) move(ctx context.Context) error {
	quiet, err := b.create(ctx, createFor)
	if err != nil {
		return err
	}
	var holder [16]byte
	_, _ = rand.Read(holder[:]) // it never fails
	m := &mover.Mover{Store: b.rig.store, Files: b.files, Clock: later{b.rig.Clock}, Holder: holder, Layout: archive.Shared, Spool: b.spool, Log: b.rig.quiet}
	creating, stop := context.WithCancel(ctx)
	var meanwhile []time.Duration
	var failed error
	wait := inBackground(func(context.Context) { meanwhile, failed = b.create(creating, time.Hour) })
	end := watch(b.Options, "move", 0, func() int { return 0 })
	heap := watchHeap()
	began := time.Now()
	_, err = m.Tick(ctx)
	took := time.Since(began)
	most := heap()
	end()
	stop()
	wait()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	note, err := mover.ReadNote(ctx, b.rig.store)
	if err != nil {
		return err
	}
	if note.Error != "" {
		return errors.New(note.Error)
	}
	b.rep.least("move_per_s", "executions moved", round(float64(note.Written)/took.Seconds(), 1), "/s", moveRate, moveRateAim)
	b.rep.note("move_s", "  until all had", round(took.Seconds(), 1), "s")
	b.rep.goal("heap_mb", "heap of this process meanwhile, at the most", round(float64(most)/(1<<20), 1), "MB", moveHeap)
	without, with := quantiles(quiet), quantiles(meanwhile)
	b.rep.note("create_p99_ms", fmt.Sprintf("creating a job, %d a second, p99 without the move", createRate), without.P99, "ms")
	b.rep.most("create_times", "  p99 with it, times that", round(with.P99/without.P99, 2), "×", moveDelay, moveDelayAim)
	return nil
}

// create creates jobs at a steady rate until ctx ends, for so long at the most, and says how long each took from when it should have been created.
func (b *historyBench) create(ctx context.Context, limit time.Duration) ([]time.Duration, error) {
	n := int(limit.Seconds() * createRate)
	took := make([]time.Duration, n)
	began := time.Now()
	err := each(ctx, createRate, n, func(ctx context.Context, i int) error {
		due := began.Add(time.Duration(i) * time.Second / createRate)
		if err := until(ctx, due); err != nil {
			return nil //nolint:nilerr // it is over
		}
		_, err := b.rig.Create(context.WithoutCancel(ctx), everybody)
		took[i] = time.Since(due)
		return err
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	done := took[:0]
	for _, d := range took {
		if d > 0 {
			done = append(done, d)
		}
	}
	return done, err
}

// read reads what has moved, and counts what is missing or there twice.
func (b *historyBench) read(ctx context.Context, s *stock) (t Tally, err error) {
	tiers := history.Over(b.rig.store, b.files, b.rig.quiet)
	of := everybody.Tenant
	var one []time.Duration
	for _, text := range s.well.ids[:min(len(s.well.ids), b.Samples)] {
		id, err := job.ParseExecutionID(text)
		if err != nil {
			return t, err
		}
		began := time.Now()
		_, err = tiers.Execution(ctx, of, id)
		one = append(one, time.Since(began))
		if errors.Is(err, engine.ErrNotFound) {
			t.Lost++
			continue
		}
		if err != nil {
			return t, err
		}
	}
	var pages []time.Duration
	for i := range min(len(s.busy), b.Samples) {
		took, seen, err := walk(ctx, tiers, engine.ExecutionFilter{Tenant: of, Job: s.busy[i].ID}, 1)
		if err != nil {
			return t, err
		}
		t.Doubled += seen
		pages = append(pages, took)
	}
	took, _, err := walk(ctx, tiers, engine.ExecutionFilter{Tenant: of, Text: "no error says this"}, 1_000_000)
	if err != nil {
		return t, err
	}
	b.rep.most("one_p99_ms", "an execution that has moved, by its id, p99", quantiles(one).P99, "ms", archOne, archOneAim)
	b.rep.most("page_p99_ms", "a page of a busy job's executions, p99", quantiles(pages).P99, "ms", archPage, archPageAim)
	b.rep.most("search_ms", "search of the day for an error that there is not", round(float64(took.Microseconds())/1000, 1), "ms", archSearch, archSearchAim)
	return t, nil
}

// walk reads up to so many pages, and how many executions came twice.
func walk(ctx context.Context, tiers *history.Tiers, f engine.ExecutionFilter, most int) (took time.Duration, twice int, err error) {
	seen := map[job.ExecutionID]bool{}
	p := engine.Page{Limit: 50, Bounded: true, Uncounted: true}
	began := time.Now()
	for range most {
		page, err := tiers.FindExecutions(ctx, f, p)
		if err != nil {
			return 0, 0, err
		}
		for _, e := range page.Executions {
			if seen[e.ID] {
				twice++
			}
			seen[e.ID] = true
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	return time.Since(began), twice, nil
}
