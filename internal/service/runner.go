package service

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Runner does the work of operations: it takes those that nobody has, does a little of each in turn, and notes after
// every piece how far it has come. Any number of servers may run one; what a server that died had is taken up by
// another. One goroutine owns it.
type Runner struct {
	s    *Operations
	log  *slog.Logger
	runs []*run
}

// Runner makes a runner of the service's operations.
func (s *Operations) Runner(log *slog.Logger) *Runner { return &Runner{s: s, log: log} }

// Wake is told when an operation was added here.
func (r *Runner) Wake() <-chan struct{} { return r.s.wake }

const (
	maxRuns  = 16               // operations that one server has at once
	piece    = 100              // items done between two looks at whether it is cancelled
	fillMax  = 500              // of a backfill, which are one commit
	hold     = 15 * time.Second // how long an operation is had without a word
	lookEach = time.Second      // for operations that nobody has
	sayEach  = 5 * time.Second  // a run that waits for its rate says that it lives
)

// run is one operation that is being done.
type run struct {
	op     job.Operation
	sel    Selection
	next   []job.ExecutionID // the piece that is being done; it is done again, the same, until it was answered
	cursor string            // behind it, where the selection is a filter
	last   bool              // there is nothing behind it

	fill     filling                       // of a backfill: what it is over
	from     time.Time                     // where the next piece of it begins
	instants map[job.ExecutionID]time.Time // of the piece that is being done

	follow following // of a change of a calendar: who is to follow it
	behind job.ID    // where the next piece of it begins

	bulk bulk           // of the same for many jobs: what, and to which
	over overExecutions // and for many executions
	rest remainder      // of a deletion: whose

	bucket  bucket
	savedAt time.Time
	tried   time.Time // what the last save that was not answered would have set UpdatedAt to
}

// Tick does a piece of every operation that may continue.
func (r *Runner) Tick(ctx context.Context) (time.Duration, error) {
	errs := []error{r.take(ctx)}
	pause := lookEach
	keep := r.runs[:0]
	for _, x := range r.runs {
		wait, over, err := r.step(ctx, x)
		errs = append(errs, err)
		if !over {
			keep = append(keep, x)
			pause = min(pause, wait)
		}
	}
	clear(r.runs[len(keep):])
	r.runs = keep
	return pause, errors.Join(errs...)
}

// Close gives back what the runner has, for others to continue with at once.
func (r *Runner) Close(ctx context.Context) error {
	var errs []error
	for _, x := range r.runs {
		if _, err := r.s.store.SaveOperation(ctx, x.op, 0); err != nil && !isConflict(err) {
			errs = append(errs, err)
		}
	}
	r.runs = nil
	return errors.Join(errs...)
}

// take gets operations that nobody has.
func (r *Runner) take(ctx context.Context) error {
	for len(r.runs) < maxRuns {
		o, err := r.s.store.TakeOperation(ctx, hold)
		if errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take an operation: %w", err)
		}
		x := &run{op: o, savedAt: r.s.now(), bucket: bucket{rate: o.Rate, at: r.s.now()}}
		if err := x.decode(); err != nil {
			r.log.Error("an operation cannot be read", "operation", o.ID, "kind", o.Kind, "error", err)
			x.op.Error = "What it was to do cannot be read."
			if _, err := r.save(ctx, x, job.OpFailed); err != nil {
				return err
			}
			continue
		}
		if x.op.Kind.Dead() && len(x.sel.IDs) == 0 {
			x.op.Passed = 0 // the list is read from its start again, and with it all that was passed over
		}
		r.runs = append(r.runs, x)
	}
	return nil
}

// decode reads what the operation is to do.
func (x *run) decode() (err error) {
	switch x.op.Kind {
	case job.OpRedrive, job.OpDiscard:
		x.sel, err = decodeSelection(x.op.Spec, x.op.Tenant)
	case job.OpBackfill:
		x.fill, err = decodeFilling(x.op.Spec)
		if x.from = x.fill.At; x.from.IsZero() {
			x.from, x.op.Done, x.op.Passed = x.fill.From, 0, 0
		}
	case job.OpReplan:
		x.follow, err = decodeFollowing(x.op.Spec)
	case job.OpCancelExecutions, job.OpRetryExecutions:
		x.over, err = decodeOver(x.op.Spec)
	case job.OpCancelWaiting:
		x.rest, err = decodeRemainder(x.op.Spec)
	default:
		if !x.op.Kind.OverJobs() {
			return fmt.Errorf("the kind %q is not known", x.op.Kind)
		}
		x.bulk, err = decodeBulk(x.op.Spec)
	}
	return err
}

// step does one piece, if the rate allows it, and says when to come again, or that there is no more to do here.
func (r *Runner) step(ctx context.Context, x *run) (wait time.Duration, over bool, err error) {
	if x.op.Kind == job.OpCancelWaiting {
		return r.stepRest(ctx, x)
	}
	if len(x.next) == 0 && !x.last {
		if err := r.list(ctx, x); err != nil {
			return 0, false, err
		}
	}
	if len(x.next) == 0 && x.last { // what has no more to do waits for no rate
		over, err = r.save(ctx, x, job.OpSucceeded)
		return 0, over, err
	}
	now := r.s.now()
	n := x.bucket.draw(x.piece(), now)
	if n == 0 {
		wait = min(x.bucket.wait(), lookEach/2)
		if now.Sub(x.savedAt) >= sayEach {
			over, err = r.save(ctx, x, job.OpRunning)
		}
		return wait, over, err
	}
	if ours, err := r.ours(ctx, x); err != nil || !ours {
		x.bucket.give(n)
		return 0, err == nil, err
	}
	these := x.next[:min(n, len(x.next))]
	x.bucket.give(n - len(these))
	if len(these) > 0 {
		done, err := r.do(ctx, x, these)
		if err != nil {
			x.bucket.give(len(these))
			return 0, false, fmt.Errorf("%s %d of operation %s: %w", x.op.Kind, len(these), x.op.ID, err)
		}
		x.op.Done += int64(done)
		x.op.Passed += int64(len(these) - done)
		x.next = x.next[len(these):]
		if err := x.mark(these); err != nil {
			return 0, false, err
		}
	}
	state := job.OpRunning
	if x.last && len(x.next) == 0 {
		state = job.OpSucceeded
	}
	over, err = r.save(ctx, x, state)
	return 0, over, err
}

// piece returns how many items are done at once.
func (x *run) piece() int {
	if x.op.Kind == job.OpBackfill {
		return fillMax
	}
	return piece
}

// mark notes in the operation where another server would continue after these.
func (x *run) mark(these []job.ExecutionID) error {
	switch x.op.Kind {
	case job.OpBackfill:
		return x.filled()
	case job.OpReplan:
		return x.followed(these)
	}
	if x.op.Kind.OverJobs() {
		return x.doneTo(these)
	}
	if x.op.Kind.OverExecutions() {
		return x.doneOver(these)
	}
	return nil
}

// ours reports whether the operation still runs and is ours to continue with.
func (r *Runner) ours(ctx context.Context, x *run) (bool, error) {
	is, err := r.s.store.Operation(ctx, x.op.Tenant, x.op.ID)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look at operation %s: %w", x.op.ID, err)
	case is.Version == x.op.Version+1 && is.UpdatedAt.Equal(x.tried):
		x.op.Version, x.op.UpdatedAt = is.Version, is.UpdatedAt // it was saved, and only the answer lost
	}
	return is.State == job.OpRunning && is.Version == x.op.Version, nil
}

// list reads the next piece of the selection.
func (r *Runner) list(ctx context.Context, x *run) error {
	switch x.op.Kind {
	case job.OpBackfill:
		return r.listFill(ctx, x)
	case job.OpReplan:
		return r.listFollowing(ctx, x)
	}
	if x.op.Kind.OverJobs() {
		return r.listJobs(ctx, x)
	}
	if x.op.Kind.OverExecutions() {
		return r.listOver(ctx, x)
	}
	if len(x.sel.IDs) > 0 {
		at := min(int(x.op.Done+x.op.Passed), len(x.sel.IDs)) // also after another server did the first part
		end := min(at+piece, len(x.sel.IDs))
		x.next, x.last = slices.Clone(x.sel.IDs[at:end]), end == len(x.sel.IDs)
		return nil
	}
	page, err := r.s.store.DeadLetters(ctx, x.sel.Filter, engine.Page{Limit: piece, Cursor: x.cursor})
	if err != nil {
		return fmt.Errorf("list dead letters: %w", err)
	}
	for _, d := range page.DeadLetters {
		if x.sel.chooses(d.Error) {
			x.next = append(x.next, d.ID)
		}
	}
	x.cursor, x.last = page.Next, page.Next == ""
	return nil
}

// do redrives, discards, fires or plans a few, and answers with how many were there.
func (r *Runner) do(ctx context.Context, x *run, ids []job.ExecutionID) (int, error) {
	switch x.op.Kind {
	case job.OpBackfill:
		return r.fillIn(ctx, x, ids)
	case job.OpReplan:
		p := tenant.Principal{Tenant: x.op.Tenant, Role: tenant.System, Name: x.op.By, Internal: true}
		for _, id := range ids {
			if err := r.s.jobs.replan(ctx, p, job.ID(id)); err != nil {
				return 0, err
			}
		}
		return len(ids), nil
	case job.OpDiscard:
		n, _, err := r.s.store.Discard(ctx, x.op.Tenant, ids, engine.Idempotency{}, nil, nil)
		return n, err
	}
	if x.op.Kind.OverJobs() {
		return r.doToJobs(ctx, x, ids)
	}
	if x.op.Kind.OverExecutions() {
		return r.doOver(ctx, x, ids)
	}
	var all []job.Execution
	var ready []job.Ready
	jobs := map[job.ID]job.Job{}
	for _, id := range ids {
		e, err := r.rerun(ctx, x, id, jobs)
		switch {
		case errors.Is(err, engine.ErrNotFound) || isInvalid(err):
			continue // passed over
		case err != nil:
			return 0, err
		}
		all, ready = append(all, e), append(ready, e.Ready())
	}
	if len(all) == 0 {
		return 0, nil
	}
	got, err := r.s.store.Rerun(ctx, x.op.Tenant, engine.Rerun{Executions: all, DeadOnly: true})
	if err != nil {
		return 0, err
	}
	ready = slices.DeleteFunc(ready, func(y job.Ready) bool { return !slices.Contains(got.Added, y.ID) })
	r.s.cfg.Hint(ready)
	return len(got.Added), nil
}

// rerun is the new execution of a dead letter.
func (r *Runner) rerun(ctx context.Context, x *run, id job.ExecutionID, jobs map[job.ID]job.Job) (e job.Execution, err error) {
	old, err := r.s.store.Execution(ctx, x.op.Tenant, id)
	if err == nil && len(x.sel.IDs) > 0 && old.FinishedAt.Before(x.sel.Filter.From) {
		err = engine.ErrNotFound // it is no longer the tenant's to see
	}
	if err != nil {
		return e, err
	}
	j, ok := jobs[old.Job]
	if !ok {
		if j, err = r.s.store.Job(ctx, x.op.Tenant, engine.Ref{ID: old.Job}); err != nil {
			return e, err
		}
		jobs[old.Job] = j
	}
	e = j.Rerun(old, derived(x.op, id), job.ByRedrive, nil, r.s.now())
	return e, regroup(j, &e)
}

// derived is the id of the execution that an operation makes of a dead letter. It is the same for as long as the
// operation was not saved, also on another server, so that a piece whose answer was lost adds nothing when it is done
// again.
func derived(o job.Operation, of job.ExecutionID) job.ExecutionID {
	return derivedAt(o.ID, of[:], o.UpdatedAt)
}

// derivedAt makes an id of what an operation is over and an instant.
func derivedAt(o job.OperationID, of []byte, at time.Time) job.ExecutionID {
	sum := sha256.Sum256(append(o[:], of...))
	id := job.ExecutionID(sum[:16])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80
	return id
}

// save notes how far an operation has come. over: it is not, or no longer, to be gone on with here.
func (r *Runner) save(ctx context.Context, x *run, state job.OperationState) (over bool, err error) {
	o, ttl := x.op, hold
	o.State, o.UpdatedAt = state, r.s.now()
	if state != job.OpRunning {
		o.FinishedAt, ttl = o.UpdatedAt, 0
	}
	if state == job.OpSucceeded {
		o.Error = whyPassed(o)
	}
	saved, err := r.s.store.SaveOperation(ctx, o, ttl)
	switch {
	case isConflict(err) && x.tried.IsZero():
		return true, nil // cancelled, or another server has it
	case isConflict(err):
		ours, err := r.ours(ctx, x)
		return err == nil && !ours, err
	case err != nil:
		x.tried = o.UpdatedAt
		return false, fmt.Errorf("save operation %s: %w", o.ID, err)
	}
	x.op, x.savedAt, x.tried = saved, o.UpdatedAt, time.Time{}
	if state != job.OpRunning {
		r.log.Info("an operation has finished", "operation", o.ID, "kind", o.Kind, "state", state, "done", o.Done, "passed", o.Passed)
	}
	return state != job.OpRunning, nil
}

// whyPassed says, for people, why some were passed over; "" if none was.
func whyPassed(o job.Operation) string {
	switch {
	case o.Passed == 0:
		return ""
	case o.Kind == job.OpBackfill:
		return fmt.Sprintf("%d passed over: the instant has an execution that has not finished, or another execution holds the job's unique key.", o.Passed)
	case o.Kind == job.OpDiscard:
		return fmt.Sprintf("%d passed over: no longer a dead letter.", o.Passed)
	case o.Kind == job.OpPause || o.Kind == job.OpResume:
		return fmt.Sprintf("%d passed over: deleted, or completed.", o.Passed)
	case o.Kind == job.OpDelete:
		return fmt.Sprintf("%d passed over: no longer there.", o.Passed)
	case o.Kind == job.OpTrigger:
		return fmt.Sprintf("%d passed over: deleted, or with a unique key that another execution holds.", o.Passed)
	case o.Kind == job.OpCancelExecutions:
		return fmt.Sprintf("%d passed over: they had ended, or are no longer kept.", o.Passed)
	case o.Kind == job.OpRetryExecutions:
		return fmt.Sprintf("%d passed over: not ended, no longer kept, of a deleted job, or with a unique key that another execution holds.", o.Passed)
	case o.Kind == job.OpTag || o.Kind == job.OpUntag:
		return fmt.Sprintf("%d passed over: deleted, or with more tags than a job may have.", o.Passed)
	}
	return fmt.Sprintf("%d passed over: no longer a dead letter, of a deleted job, or with a unique key that another execution holds.", o.Passed)
}

// bucket fills with tokens at a rate a second, up to a fifth of a second's worth; without a rate it is never empty.
type bucket struct {
	rate   float64
	tokens float64
	at     time.Time
}

func (b *bucket) burst() float64 { return max(1, b.rate/5) }

// draw takes up to n tokens out.
func (b *bucket) draw(n int, now time.Time) int {
	if b.rate == 0 {
		return n
	}
	b.tokens = min(b.burst(), b.tokens+b.rate*max(0, now.Sub(b.at).Seconds()))
	b.at = now
	got := min(n, int(b.tokens))
	b.tokens -= float64(got)
	return got
}

// give puts tokens back that were not used.
func (b *bucket) give(n int) { b.tokens += float64(n) }

// wait returns how long it takes until there is a token, at most an hour: a rate near nothing asks for more than a
// Duration holds.
func (b *bucket) wait() time.Duration {
	seconds := min((1-b.tokens)/b.rate, time.Hour.Seconds())
	return time.Duration(seconds*float64(time.Second)) + time.Millisecond
}

// AutoRedrive runs a dead letter again because its job says so; *NotDone if it is none any more.
func (s *Operations) AutoRedrive(ctx context.Context, old job.Execution) error {
	p := tenant.Principal{Tenant: old.Tenant, Role: tenant.System, Name: "auto redrive", Internal: true}
	_, _, err := s.executions.Redrive(ctx, p, old.ID, Once[job.Execution]{})
	return err
}
