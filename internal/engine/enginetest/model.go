package enginetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// model computes the expected state of a store, kept in maps: which executions wait, run and have ended, under which
// leases and by whom. It uses the rules of core, as engines do, and shares nothing else with them. If the port leaves
// something open (which executions of a paused job may start, when a retry is due), it adopts what the engines did.
type model struct {
	jobs    map[job.ID]job.State
	retries map[job.ID]int
	runs    map[job.ExecutionID]*modelRun
	ended   map[job.WorkerID]bool // sessions
	expired map[job.WorkerID]bool // sessions that the next reap ends
}

// modelRun is an execution.
type modelRun struct {
	job    job.ID
	tenant tenant.ID
	unique string
	status job.Status
	tries  int
	lost   int
	later  bool // it may not be due
	lease  int  // the number of the lease that holds; 0: none does
	last   int  // of the one before
	holder job.WorkerID
	parked bool
	dead   bool             // it is a dead letter
	past   map[int]job.Past // leases that hold no more
}

func newModel() *model {
	return &model{map[job.ID]job.State{}, map[job.ID]int{}, map[job.ExecutionID]*modelRun{}, map[job.WorkerID]bool{}, map[job.WorkerID]bool{}}
}

func (m *model) add(e job.Execution) {
	m.runs[e.ID] = &modelRun{job: e.Job, tenant: e.Tenant, unique: e.UniqueKey, status: job.Pending, past: map[int]job.Past{}}
}

// taken reports whether an unfinished execution holds a unique key.
func (m *model) taken(t tenant.ID, key string) bool {
	for _, x := range m.runs {
		if key != "" && x.unique == key && x.tenant == t && !x.status.Final() {
			return true
		}
	}
	return false
}

// end ends an execution.
func (x *modelRun) end(s job.Status, p job.Past) {
	p.Status = s
	if x.lease == 0 && x.last > 0 { // it keeps the token of its last lease, which counts as the one under which it ended
		p = x.past[x.last]
		p.Status = s
		x.past[x.last] = p
	}
	x.close(p)
	x.status = s
	x.dead = s == job.Failed || s == job.TimedOut
}

// close records that the lease no longer holds.
func (x *modelRun) close(p job.Past) {
	if x.lease > 0 {
		p.Tenant, p.Holder = x.tenant, x.holder
		x.past[x.lease], x.last = p, x.lease
	}
	x.lease, x.parked = 0, false
}

// back returns an execution to the queue, unless it was to stop or its job is deleted.
func (m *model) back(x *modelRun, move job.Move, p job.Past) {
	if x.status == job.Cancelling || m.jobs[x.job] == job.Deleted {
		x.end(job.Cancelled, p)
		return
	}
	next, _ := job.Apply(x.status, move, x.tries)
	x.close(p)
	x.status = next
}

// leased compares a lease with what was free.
func (m *model) leased(r *rapid.T, w job.WorkerID, asked []job.ExecutionID, n int, got []job.Attempt, said string) {
	if m.ended[w] {
		if said != engine.ErrSession.Error() {
			r.Fatalf("a session that has ended is answered %s", said)
		}
		return
	}
	for _, id := range asked {
		x := m.runs[id]
		given := slices.ContainsFunc(got, func(a job.Attempt) bool { return a.Execution == id })
		free := x.lease == 0 && !x.status.Final() && m.jobs[x.job] != job.Deleted
		open := x.later || m.jobs[x.job] == job.Paused || m.expired[w]
		switch {
		case given && !free:
			r.Fatalf("an execution that is %s, of a job that is %s, was leased", x.status, m.jobs[x.job])
		case !given && free && !open:
			r.Fatalf("an execution that is %s was not leased", x.status)
		case given:
			x.status, x.lease, x.holder, x.later = job.Running, n, w, false
		}
	}
}

// finished compares a verdict with the state of the lease.
func (m *model) finished(r *rapid.T, f job.Finish, n int, v job.Verdict, now time.Time) {
	x := m.runs[f.Outcome.Execution]
	mine := f.Worker == (job.WorkerID{}) || f.Worker == x.holder
	if x.lease != n || !mine {
		m.judged(r, x, f, n, v)
		return
	}
	if !v.Accepted { // Repeated if the first answer was lost
		r.Fatalf("the result of a lease that holds: %+v", v)
	}
	h := job.Held{Execution: job.Execution{Status: x.status, Tries: x.tries, MaxAttempts: m.retries[x.job] + 1}, JobState: m.jobs[x.job], Retry: job.RetryPolicy{Backoff: job.Fixed}}
	t := job.Decide(h, f.Outcome, now)
	p := job.Past{Failed: (&job.Finish{Outcome: f.Outcome, Then: t}).FailedAttempt(), Snoozed: f.Outcome.Status == job.OutcomeSnoozed}
	x.tries = t.Tries
	if t.Status.Final() {
		x.end(t.Status, p)
		return
	}
	x.close(p)
	x.status, x.later = t.Status, true
}

// judged compares the answer to a result whose lease does not hold.
func (m *model) judged(r *rapid.T, x *modelRun, f job.Finish, n int, v job.Verdict) {
	p, known := x.past[n]
	if x.lease == n { // which another has
		p = job.Past{Tenant: x.tenant, Holder: x.holder}
	} else if !known {
		r.Fatalf("lease %d is unknown to the model", n)
	}
	if want := job.Judge(p, &f); want.Accepted != v.Accepted {
		r.Fatalf("a %s under a lease that ended so: %+v was answered %+v, want %+v", f.Outcome.Status, p, v, want)
	}
}

// parks compares a verdict on parking.
func (m *model) parks(r *rapid.T, id job.ExecutionID, by job.WorkerID, n int, v job.Verdict) {
	x := m.runs[id]
	if x.lease != n || x.holder != by {
		m.judged(r, x, job.Finish{Outcome: job.Outcome{Lease: job.Lease{Execution: id}, Status: job.OutcomeParked}, Worker: by}, n, v)
		return
	}
	if !v.Accepted {
		r.Fatalf("parking under a lease that holds: %+v", v)
	}
	if x.parked = true; x.status == job.Cancelling {
		x.end(job.Cancelled, job.Past{})
	}
}

// released returns a worker's chosen leases to the queue.
func (m *model) released(by job.WorkerID, chosen func(id job.ExecutionID, lease int) bool) {
	for id, x := range m.runs {
		if x.lease > 0 && x.holder == by && !x.parked && chosen(id, x.lease) {
			m.back(x, job.Release, job.Past{})
		}
	}
}

// reaped ends the sessions that have expired.
func (m *model) reaped(poison int) {
	for w := range m.expired {
		for _, x := range m.runs {
			if x.lease == 0 || x.holder != w || x.parked {
				continue
			}
			if x.lost++; x.lost >= poison && x.status != job.Cancelling && m.jobs[x.job] != job.Deleted {
				x.end(job.Failed, job.Past{Lost: true})
				continue
			}
			m.back(x, job.Lost, job.Past{Lost: true})
			x.later = true
		}
		m.ended[w] = true
	}
	clear(m.expired)
}

// cancelled compares the answer to a cancel.
func (m *model) cancelled(r *rapid.T, of tenant.ID, id job.ExecutionID, got job.Status, said string) {
	x := m.runs[id]
	want := job.Cancelled
	switch {
	case of != x.tenant:
		if said != engine.ErrNotFound.Error() {
			r.Fatalf("a cancel of another tenant's is answered %s", said)
		}
		return
	case x.status.Final() && x.status != job.Cancelled:
		if said != engine.ErrConflict.Error() {
			r.Fatalf("a cancel of what is %s is answered %s", x.status, said)
		}
		return
	case x.status.Final():
	case x.lease == 0 || x.parked:
		x.end(job.Cancelled, job.Past{})
	default:
		want, x.status = job.Cancelling, job.Cancelling
	}
	if got != want {
		r.Fatalf("a cancel is answered %s, want %s", said, want)
	}
}

// forced ends what was asked to stop.
func (m *model) forced() {
	for _, x := range m.runs {
		if x.status == job.Cancelling {
			x.end(job.Cancelled, job.Past{})
		}
	}
}

// deleted ends the waiting executions of a job.
func (m *model) deleted(of job.ID) {
	m.jobs[of] = job.Deleted
	for _, x := range m.runs {
		if x.job == of && x.lease == 0 && !x.status.Final() {
			x.end(job.Cancelled, job.Past{})
		}
	}
}

// reran compares what a rerun added.
func (m *model) reran(r *rapid.T, old, again job.Execution, deadOnly bool, added bool) {
	x := m.runs[old.ID]
	may := x.status.Final() && m.jobs[x.job] != job.Deleted && (x.dead || !deadOnly)
	switch {
	case added && !may:
		r.Fatalf("what is %s, dead %v, of a job that is %s, was rerun", x.status, x.dead, m.jobs[x.job])
	case !added && may && !m.taken(again.Tenant, again.UniqueKey):
		r.Fatalf("what is %s, dead %v, was not rerun", x.status, x.dead)
	case added:
		x.dead = false
		m.add(again)
	}
}

// same compares the state of every execution.
func (m *model) same(r *rapid.T, p *play, s engine.Store) {
	for id, x := range m.runs {
		e, err := s.Execution(p.ctx, x.tenant, id)
		held := e.Status == job.Waiting && x.lease == 0 && !x.status.Final() && m.jobs[x.job] == job.Paused
		if err != nil || e.Status != x.status && !held {
			r.Fatalf("the model has an execution that is %s, the engines one that is %s (%v)", x.status, e.Status, err)
		}
		dead, err := s.DeadLetters(p.ctx, engine.DeadLetterFilter{Tenant: x.tenant, Execution: id}, engine.Page{Limit: 1})
		if err != nil || len(dead.DeadLetters) > 0 != x.dead {
			r.Fatalf("an execution that is %s: the model says that it is a dead letter: %v, the engines have %d (%v)", x.status, x.dead, len(dead.DeadLetters), err)
		}
	}
}
