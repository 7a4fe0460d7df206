package service

import (
	"cmp"
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

// Runner does the work of operations: it takes those without a holder, does a little of each in turn, and records its
// progress after every piece. Any number of servers may run one; another server continues the operations of one that
// died. It is not safe for concurrent use.
type Runner struct {
	s    *Operations
	log  *slog.Logger
	runs []*run
}

// Runner makes a runner of the service's operations.
func (s *Operations) Runner(log *slog.Logger) *Runner { return &Runner{s: s, log: log} }

// Wake is signalled when an operation was added here.
func (r *Runner) Wake() <-chan struct{} { return r.s.wake }

const (
	maxRuns  = 16               // operations that one server holds at once
	piece    = 100              // items between two checks for cancellation
	fillMax  = 500              // of a backfill, which are one commit
	hold     = 15 * time.Second // how long an operation is held without renewal
	lookEach = time.Second      // how often to look for operations without a holder
	sayEach  = 5 * time.Second  // how often a run that waits for its rate renews its hold
)

// run is one operation in progress.
type run struct {
	op     job.Operation
	sel    Selection
	next   []job.ExecutionID // the current piece; it is repeated unchanged until it was answered
	cursor string            // after it, if the selection is a filter
	last   bool              // it is the last piece

	fill     filling                       // of a backfill: its instants
	from     time.Time                     // where its next piece begins
	instants map[job.ExecutionID]time.Time // of the current piece

	follow following // of a change of a calendar: the jobs that must follow
	behind job.ID    // where its next piece begins

	bulk bulk           // of a bulk action: what, and on which
	over overExecutions // and for many executions
	rest remainder      // of a deletion: whose

	bucket  bucket
	savedAt time.Time
	tried   time.Time // what the last unanswered save would have set UpdatedAt to
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

// Close releases what the runner holds, for others to continue at once.
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

// take gets operations without a holder.
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
			x.op.Passed = 0 // the list is read from its start again, including everything that was skipped
		}
		r.runs = append(r.runs, x)
	}
	return nil
}

// decode reads the operation's specification.
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

// step does one piece, if the rate allows it, and returns when to come again, or that there is no more to do here.
func (r *Runner) step(ctx context.Context, x *run) (wait time.Duration, over bool, err error) {
	if x.op.Kind == job.OpCancelWaiting {
		return r.stepRest(ctx, x)
	}
	if len(x.next) == 0 && !x.last {
		if err := r.list(ctx, x); err != nil {
			return 0, false, err
		}
	}
	if len(x.next) == 0 && x.last { // with nothing left to do, it waits for no rate
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

// mark records in the operation where another server would continue after these.
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

// ours reports whether the operation is still running and held by this runner.
func (r *Runner) ours(ctx context.Context, x *run) (bool, error) {
	is, err := r.s.store.Operation(ctx, x.op.Tenant, x.op.ID)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look at operation %s: %w", x.op.ID, err)
	case is.Version == x.op.Version+1 && is.UpdatedAt.Equal(x.tried):
		x.op.Version, x.op.UpdatedAt = is.Version, is.UpdatedAt // it was saved, and only the answer was lost
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
		at := min(int(x.op.Done+x.op.Passed), len(x.sel.IDs)) // even if another server did the first part
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

// do redrives, discards, fires or plans a few, and returns how many existed.
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
	return r.redrive(ctx, x, ids)
}

// redrive runs dead letters again, and answers with how many there were.
func (r *Runner) redrive(ctx context.Context, x *run, ids []job.ExecutionID) (int, error) {
	var all []job.Execution
	var ready []job.Ready
	var parts []runPart
	jobs := map[job.ID]job.Job{}
	for _, id := range ids {
		e, part, err := r.redriven(ctx, x, id, jobs)
		switch {
		case refusedToRun(err):
			continue // passed over
		case err != nil:
			return 0, err
		}
		if part.run != (job.ExecutionID{}) {
			parts = append(parts, part)
			continue
		}
		all, ready = append(all, e), append(ready, e.Ready())
	}
	p := tenant.Principal{Tenant: x.op.Tenant, Role: tenant.System, Name: x.op.By, Internal: true}
	done, err := r.s.reruns.retryParts(ctx, p, parts, nil)
	if err != nil || len(all) == 0 {
		return done, err
	}
	got, err := r.s.store.Rerun(ctx, x.op.Tenant, engine.Rerun{Executions: all, DeadOnly: true})
	if err != nil {
		return 0, err
	}
	ready = slices.DeleteFunc(ready, func(y job.Ready) bool { return !slices.Contains(got.Added, y.ID) })
	r.s.cfg.Hint(ready)
	return done + len(got.Added), nil
}

// redriven is the new execution of a dead letter, or the part of a run that the dead letter stands for.
func (r *Runner) redriven(ctx context.Context, x *run, id job.ExecutionID, jobs map[job.ID]job.Job) (e job.Execution, part runPart, err error) {
	old, err := r.s.store.Execution(ctx, x.op.Tenant, id)
	if err == nil && len(x.sel.IDs) > 0 && old.FinishedAt.Before(x.sel.Filter.From) {
		err = engine.ErrNotFound // the tenant may no longer see it
	}
	if err != nil {
		return e, part, err
	}
	j, part, err := r.partOf(ctx, old, jobs)
	if err != nil {
		return e, part, err
	}
	if part.run != (job.ExecutionID{}) {
		if dead, err := r.s.reruns.dead(ctx, x.op.Tenant, id); err != nil || !dead {
			return e, part, cmp.Or(err, engine.ErrNotFound)
		}
		return e, part, nil
	}
	e = j.Rerun(old, derived(x.op, id), job.ByRedrive, nil, r.s.now())
	return e, part, regroup(j, &e)
}

// partOf is Reruns.partOf, which remembers the jobs of plain executions.
func (r *Runner) partOf(ctx context.Context, old job.Execution, jobs map[job.ID]job.Job) (job.Job, runPart, error) {
	if j, ok := jobs[old.Job]; ok && old.Trigger != job.ByWorkflow {
		return j, runPart{}, nil
	}
	j, part, err := r.s.reruns.partOf(ctx, old)
	if err == nil && part.run == (job.ExecutionID{}) {
		jobs[old.Job] = j
	}
	return j, part, err
}

// derived returns the id of the execution that an operation makes of a dead letter. It is the same until the
// operation is saved, even on another server, so that repeating a piece whose answer was lost adds nothing.
func derived(o job.Operation, of job.ExecutionID) job.ExecutionID {
	return derivedAt(o.ID, of[:], o.UpdatedAt)
}

// derivedAt derives an id from an item of an operation and an instant.
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

// save stores the progress of an operation. over means that it is not, or no longer, to be continued here.
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
		return true, nil // cancelled, or another server holds it
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

// whyPassed returns, for people, why some were skipped; "" if none was.
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
		return fmt.Sprintf("%d passed over: no longer there, in use or on hold.", o.Passed)
	case o.Kind == job.OpTrigger:
		return fmt.Sprintf("%d passed over: deleted, or with a unique key that another execution holds.", o.Passed)
	case o.Kind == job.OpCancelExecutions:
		return fmt.Sprintf("%d passed over: they had ended, or are no longer kept.", o.Passed)
	case o.Kind == job.OpRetryExecutions:
		return fmt.Sprintf("%d passed over: not ended, no longer kept, of a deleted job, of a run that has not ended, or with a unique key that another execution holds.", o.Passed)
	case o.Kind == job.OpTag || o.Kind == job.OpUntag:
		return fmt.Sprintf("%d passed over: deleted, or with more tags than a job may have.", o.Passed)
	}
	return fmt.Sprintf("%d passed over: no longer a dead letter, of a deleted job, of a run that has not ended, or with a unique key that another execution holds.", o.Passed)
}

// bucket fills with tokens at a rate per second, up to a fifth of a second's worth; without a rate it is never empty.
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

// give returns unused tokens.
func (b *bucket) give(n int) { b.tokens += float64(n) }

// wait returns how long it takes until there is a token, at most an hour: with a rate close to zero it would overflow
// a Duration.
func (b *bucket) wait() time.Duration {
	seconds := min((1-b.tokens)/b.rate, time.Hour.Seconds())
	return time.Duration(seconds*float64(time.Second)) + time.Millisecond
}

// AutoRedrive runs a dead letter again because its job says so; *NotDone if it is no longer one.
func (s *Operations) AutoRedrive(ctx context.Context, old job.Execution) error {
	p := tenant.Principal{Tenant: old.Tenant, Role: tenant.System, Name: "auto redrive", Internal: true}
	e, err := s.store.Execution(ctx, old.Tenant, old.ID)
	if err != nil {
		return err
	}
	if e.Trigger == job.ByWorkflow && !e.RetryOf.IsZero() { // once, as for other executions
		return &NotDone{"redrive", "The node was run again once already, and failed again."}
	}
	_, _, err = s.reruns.Redrive(ctx, p, old.ID, Once[job.Execution]{})
	return err
}
