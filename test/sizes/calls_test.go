//go:build unix

package sizes

import (
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// call is a call of the port, with what a server asks for in it.
type call struct {
	method string
	what   string
	times  int  // that it is made at most; 0: once
	pieces bool // it asks the store several times, each with the time of a call
	before func(b *bench)
	do     func(b *bench) (more bool, err error)
}

// once makes a call of which the answer does not matter.
func once[T any](f func(b *bench) (T, error)) func(*bench) (bool, error) {
	return func(b *bench) (bool, error) { _, err := f(b); return true, err }
}

// goes makes a call that goes on as long as it answers with something.
func goes(f func(b *bench) (int, error)) func(*bench) (bool, error) {
	return func(b *bench) (bool, error) { n, err := f(b); return n > 0, err }
}

func does(f func(b *bench) error) func(*bench) (bool, error) {
	return func(b *bench) (bool, error) { return true, f(b) }
}

// page is what people ask for.
var page = engine.Page{Limit: 50, Bounded: true}

func jobIDs(js []job.Job) (ids []job.ID) {
	for i := range js {
		ids = append(ids, js[i].ID)
	}
	return ids
}

// waiting are executions of the backlog, from one on.
func waiting(first, n int) (ids []job.ExecutionID) {
	for i := range n {
		ids = append(ids, copyOf(waitingIDs, first+i))
	}
	return ids
}

// calls are made in this order: those that read first, then those that change something, then those that end much.
var calls = []call{
	{method: "FindJobs", what: "all", do: findJobs(engine.JobFilter{})},
	{method: "FindJobs", what: "by text that is nowhere", do: findJobs(engine.JobFilter{Text: "nowhere to be found"})},
	{method: "FindJobs", what: "by a tag that none has", do: findJobs(engine.JobFilter{Tag: "none"})},
	{method: "FindJobs", what: "by an owner that none has", do: findJobs(engine.JobFilter{Owner: "nobody"})},
	{method: "FindJobs", what: "by name", do: findJobs(engine.JobFilter{Name: "lane 1"})},
	{method: "FindJobs", what: "active", do: findJobs(engine.JobFilter{State: job.Active})},
	{method: "FindJobs", what: "paused", do: findJobs(engine.JobFilter{State: job.Paused})},
	{method: "FindJobs", what: "completed", do: findJobs(engine.JobFilter{State: job.Completed})},
	{method: "FindJobs", what: "of intervals", do: findJobs(engine.JobFilter{ScheduleType: job.Interval})},
	{method: "FindJobs", what: "late", do: func(b *bench) (bool, error) {
		return findJobs(engine.JobFilter{LateBefore: b.now().Add(-time.Minute)})(b)
	}},
	{method: "Job", what: "with a backlog", do: once(func(b *bench) (job.Job, error) { return b.Job(b.ctx, tenant.Default, engine.Ref{Key: "backlog"}) })},
	{method: "Stats", what: "of a backlog and of 99 others", do: once(func(b *bench) ([]job.Stats, error) {
		return b.Stats(b.ctx, tenant.Default, append(jobIDs(b.held), append(jobIDs(b.behind[:35]), b.backlog.ID)...))
	})},
	{method: "Recent", what: "20 of a backlog and of 99 others", do: once(func(b *bench) ([][]engine.Run, error) {
		return b.Recent(b.ctx, tenant.Default, append(jobIDs(b.held), append(jobIDs(b.behind[:35]), b.backlog.ID)...), 20, b.now().Add(-24*time.Hour))
	})},
	{method: "LastStatus", do: once(func(b *bench) ([]job.Status, error) {
		return b.LastStatus(b.ctx, tenant.Default, append(jobIDs(b.held), b.backlog.ID), time.Time{})
	})},
	{method: "Names", do: once(func(b *bench) (map[job.ID]string, error) {
		return b.Names(b.ctx, tenant.Default, jobIDs(b.behind[:64]))
	})},
	{method: "LateJobs", do: once(func(b *bench) (engine.JobPage, error) {
		return b.LateJobs(b.ctx, tenant.Default, b.now().Add(-time.Minute), 20)
	})},
	{method: "Late", pieces: true, do: once(func(b *bench) ([]engine.Late, error) { return b.Late(b.ctx, tenant.Default, b.now(), 1000) })},
	{method: "Whose", do: once(func(b *bench) ([]engine.Owned, error) { return b.Whose(b.ctx, waiting(1, 64), b.now().Add(-time.Hour)) })},
	{method: "CalendarUsers", do: once(func(b *bench) ([]job.Job, error) {
		js, _, err := b.CalendarUsers(b.ctx, tenant.Default, "holidays", job.ID{}, 10_000)
		return js, err
	})},
	{method: "Census", do: once(func(b *bench) (engine.Census, error) { return b.Census(b.ctx, b.now().Add(-time.Minute)) })},
	{method: "Sizes", do: once(func(b *bench) (engine.Sizes, error) { return b.Sizes(b.ctx) })},
	{method: "CountJobs", pieces: true, do: func(b *bench) (bool, error) {
		n, err := b.CountJobs(b.ctx, tenant.Default)
		return true, want(err, int(n), 2+len(b.held)+len(b.behind)+len(b.lanes), "active jobs")
	}},
	{method: "FindExecutions", what: "all", do: findExecutions(engine.ExecutionFilter{})},
	{method: "FindExecutions", what: "that wait", do: findExecutions(engine.ExecutionFilter{Statuses: []job.Status{job.Pending}})},
	{method: "FindExecutions", what: "that run", do: findExecutions(engine.ExecutionFilter{Statuses: []job.Status{job.Running}})},
	{method: "FindExecutions", what: "that failed", do: findExecutions(engine.ExecutionFilter{Statuses: []job.Status{job.Failed}})},
	{method: "FindExecutions", what: "of a worker that has none", do: findExecutions(engine.ExecutionFilter{Worker: job.WorkerID{1}})},
	{method: "FindExecutions", what: "of a backlog", do: func(b *bench) (bool, error) { return findExecutions(engine.ExecutionFilter{Job: b.backlog.ID})(b) }},
	{method: "FindExecutions", what: "of a backlog, that failed", do: func(b *bench) (bool, error) {
		return findExecutions(engine.ExecutionFilter{Job: b.backlog.ID, Statuses: []job.Status{job.Failed}})(b)
	}},
	{method: "Due", what: "what is behind", do: once(func(b *bench) ([]engine.Due, error) {
		return b.Due(b.ctx, engine.DueFilter{Until: b.now().Add(-time.Minute), Limit: 1000})
	})},
	{method: "Due", what: "what is behind, the last of one instant", do: once(func(b *bench) ([]engine.Due, error) {
		return b.Due(b.ctx, engine.DueFilter{From: b.behind[0].NextRunAt, Skip: len(b.behind) * 9 / 10, Until: b.now().Add(-time.Minute), Limit: 1000})
	})},
	{method: "Due", what: "what is behind, of other tenants", do: once(func(b *bench) ([]engine.Due, error) {
		return b.Due(b.ctx, engine.DueFilter{Until: b.now().Add(-time.Minute), Without: []tenant.ID{tenant.Default}, Limit: 1000})
	})},
	{method: "Ahead", do: once(func(b *bench) ([]int, error) { return b.Ahead(b.ctx, nil, b.now().Add(-3*time.Hour), 60, 100_000) })},
	{method: "Lanes", what: "all, a thousand at a time", times: 1000, before: func(b *bench) { b.lane = nil }, do: goes(func(b *bench) (int, error) {
		ls, err := b.Lanes(b.ctx, b.lane, 1000)
		if len(ls) > 0 {
			b.lane, b.cursors = &ls[len(ls)-1], ls
		}
		return len(ls), err
	})},
	{method: "Ready", what: "4 of each of a thousand lanes", do: once(func(b *bench) ([]job.Ready, error) { return b.Ready(b.ctx, cursors(b.cursors), 4) })},
	{method: "Ready", what: "1000 of a backlog, from its start", do: once(func(b *bench) ([]job.Ready, error) {
		return b.Ready(b.ctx, []engine.LaneCursor{{Lane: b.backlogLane()}}, 1000)
	})},
	{method: "Ready", what: "1000 where all that is due is leased", do: once(func(b *bench) ([]job.Ready, error) {
		var ls []job.Lane
		for i := range b.held {
			ls = append(ls, lane(&b.held[i]))
		}
		return b.Ready(b.ctx, cursors(ls), 16)
	})},
	{method: "CountDue", pieces: true, do: once(func(b *bench) (map[engine.DueKey]int, error) { return b.CountDue(b.ctx) })},
	{method: "Running", what: "all", pieces: true, do: func(b *bench) (bool, error) {
		rs, err := b.Running(b.ctx, nil)
		return true, want(err, len(rs), 1+(1+b.sizes.leases/job.Partitions)*job.Partitions, "leased executions")
	}},
	{method: "Running", what: "in a third of the partitions", pieces: true, do: once(func(b *bench) ([]engine.Running, error) {
		ps := make([]job.Partition, 21)
		for i := range ps {
			ps[i] = job.Partition(i)
		}
		return b.Running(b.ctx, ps)
	})},
	{method: "Workers", pieces: true, do: func(b *bench) (bool, error) {
		ws, err := b.Workers(b.ctx, tenant.Default)
		return true, want(err, len(ws), 1+b.sizes.sessions, "sessions")
	}},
	{method: "Worker", do: once(func(b *bench) (job.Worker, error) { return b.Worker(b.ctx, b.worker) })},
	{method: "Cordoned", do: once(func(b *bench) ([]job.WorkerID, error) { return b.Cordoned(b.ctx) })},
	{method: "Resumable", do: once(func(b *bench) ([]job.Job, error) { return b.Resumable(b.ctx, 100) })},
	{method: "Redrivable", do: once(func(b *bench) ([]job.Execution, error) { return b.Redrivable(b.ctx, 100) })},
	{method: "SecretsOf", what: "1000", do: once(func(b *bench) ([]engine.SecretUse, error) {
		var ids []job.ExecutionID
		for _, j := range b.lanes[:min(1000, len(b.lanes))] {
			ids = append(ids, job.ExecutionID(j.ID))
		}
		return b.SecretsOf(b.ctx, ids)
	})},
	{method: "Secret", do: once(func(b *bench) (engine.Secret, error) { return b.Store.Secret(b.ctx, tenant.Default, "NAMED_7") })},
	{method: "Secrets", do: once(func(b *bench) ([]engine.Secret, error) { return b.Secrets(b.ctx, tenant.Default) })},
	{method: "SealedSecrets", do: once(func(b *bench) ([]engine.Secret, error) {
		xs, _, err := b.SealedSecrets(b.ctx, tenant.Default)
		return xs, err
	})},
	{method: "SecretStamp", do: once(func(b *bench) (string, error) { return b.SecretStamp(b.ctx, tenant.Default) })},
	{method: "LackSecrets", do: once(func(b *bench) ([]string, error) {
		return b.LackSecrets(b.ctx, tenant.Default, []string{"NAMED_1", "none"})
	})},
	{method: "PastSecrets", do: once(func(b *bench) ([]engine.Secret, error) { return b.PastSecrets(b.ctx, tenant.Default, 1000) })},
	{method: "SecretKeys", do: once(func(b *bench) ([]engine.Secret, error) { return b.SecretKeys(b.ctx) })},
	{method: "SecretsNotUnder", what: "all are under the key", do: once(func(b *bench) ([]engine.Secret, error) {
		return b.SecretsNotUnder(b.ctx, "k1", engine.Secret{}, 200)
	})},
	{method: "SecretsNotUnder", what: "none is under the key", do: once(func(b *bench) ([]engine.Secret, error) {
		return b.SecretsNotUnder(b.ctx, "k2", engine.Secret{}, 200)
	})},

	{method: "PutSecret", what: "one more", times: 3, do: once(func(b *bench) (engine.Secret, error) { return b.PutSecret(b.ctx, b.secret("NAMED_X"), engineMost, nil) })},
	{method: "DeleteSecret", do: does(func(b *bench) error { return b.DeleteSecret(b.ctx, tenant.Default, "NAMED_X", nil) })},
	{method: "Register", times: 3, do: once(func(b *bench) (job.WorkerID, error) { return b.register(), nil })},
	{method: "Renew", what: "1000 sessions", times: 3, do: once(func(b *bench) (engine.Orders, error) {
		rs := make([]engine.Renewal, min(1000, b.sizes.sessions))
		for i := range rs {
			rs[i] = engine.Renewal{Worker: copyOf(sessionIDs, 1+i), Beat: job.Beat{Running: 600}}
		}
		return b.Renew(b.ctx, rs, 10*time.Hour)
	})},
	{method: "Cordon", do: does(func(b *bench) error {
		return b.Cordon(b.ctx, tenant.Default, copyOf(sessionIDs, b.sizes.sessions), true, nil)
	})},
	{method: "Drain", do: does(func(b *bench) error { return b.Drain(b.ctx, tenant.Default, copyOf(sessionIDs, b.sizes.sessions), nil) })},
	{method: "CreateJobs", what: "1000", do: does(func(b *bench) error {
		for range atOnce {
			j := b.spareJob()
			j.Schedule, j.NextRunAt = job.Schedule{Type: job.Immediate}, time.Time{}
			b.spare = append(b.spare, j)
		}
		b.create(b.spare, true)
		return nil
	})},
	{method: "Trigger", what: "a job with a backlog", do: once(func(b *bench) (engine.Created, error) {
		e := b.backlog.Fire(newID(), b.now(), b.now())
		e.Trigger = job.ByHand
		return b.Trigger(b.ctx, tenant.Default, e, engine.Idempotency{}, nil)
	})},
	{method: "Backfill", what: "1000 of a job with a backlog", do: once(func(b *bench) ([]job.ExecutionID, error) {
		es := make([]job.Execution, atOnce)
		for i := range es {
			es[i] = b.backlog.Fire(newID(), b.now().Add(-time.Duration(100+i)*time.Hour), b.now())
			es[i].Trigger = job.ByBackfill
		}
		return b.Backfill(b.ctx, tenant.Default, b.backlog.ID, es)
	})},
	{method: "Lease", what: "500 of a backlog", times: 3, do: once(func(b *bench) ([]job.Attempt, error) {
		b.leased += 500
		as, err := b.Lease(b.ctx, []engine.Grant{{Worker: b.worker, Executions: waiting(b.leased%max(1, b.sizes.waiting-1000), 500)}}, engine.Fence{})
		b.attempts = as
		return as, err
	})},
	{method: "Held", do: once(func(b *bench) ([]job.Held, error) { return b.Held(b.ctx, leases(b.attempts)) })},
	{method: "Leased", what: "50 that begin together", do: once(func(b *bench) ([]*job.Attempt, error) {
		var hs []engine.HeldBy
		for _, a := range b.attempts[:min(50, len(b.attempts))] {
			hs = append(hs, engine.HeldBy{Worker: b.worker, Lease: a.Lease})
		}
		return b.Leased(b.ctx, hs)
	})},
	{method: "Finish", what: "250 successes", do: once(func(b *bench) ([]job.Verdict, error) {
		fs := make([]job.Finish, 0, 250)
		for _, a := range b.attempts[:len(b.attempts)/2] {
			fs = append(fs, job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}})
		}
		return b.Finish(b.ctx, fs)
	})},
	{method: "Release", what: "100", do: once(func(b *bench) (engine.Requeued, error) {
		return b.Release(b.ctx, b.worker, leases(b.attempts[len(b.attempts)/2:][:min(100, len(b.attempts)/4)]))
	})},
	{method: "Disown", what: "the rest", do: once(func(b *bench) (engine.Requeued, error) { return b.Disown(b.ctx, b.worker, nil, time.Time{}) })},
	{method: "Cancel", what: "one that waits", do: once(func(b *bench) (engine.Cancelled, error) {
		return b.Cancel(b.ctx, tenant.Default, copyOf(waitingIDs, b.sizes.waiting-1), "", nil)
	})},
	{method: "Cancel", what: "one that runs", do: once(func(b *bench) (engine.Cancelled, error) {
		return b.Cancel(b.ctx, tenant.Default, copyOf(leasedIDs, job.Partitions+3), "", nil)
	})},
	{method: "Force", do: once(func(b *bench) ([]engine.Ended, error) { return b.Force(b.ctx, 30*time.Second, 1000) })},
	{method: "Overrun", what: "the first look, and three more", times: 4, do: once(func(b *bench) ([]engine.Overrun, error) { return b.Overrun(b.ctx, 5*time.Second, 100) })},
	{method: "Expire", do: once(func(b *bench) ([]engine.Ended, error) { return b.Expire(b.ctx, 1000) })},

	{method: "Fire", what: "1000 that are behind, till none is", times: 20, before: func(b *bench) { b.fired = 0 }, do: goes(func(b *bench) (int, error) {
		some := b.behind[b.fired:min(len(b.behind), b.fired+atOnce)]
		b.fired += len(some)
		fs := make([]engine.Firing, len(some))
		for i, j := range some {
			fs[i] = engine.Firing{
				Tenant: j.Tenant, Job: j.ID, Revision: j.Revision, Was: j.NextRunAt, Next: j.NextRunAt.Add(time.Hour), Runs: 1,
				Executions: []job.Execution{j.Fire(newID(), j.NextRunAt, b.now())},
			}
		}
		_, err := b.Fire(b.ctx, fs, engine.Fence{})
		return len(some), err
	})},
	{method: "Fire", what: "a job with a backlog, overlap skip", do: fireBacklog(job.OverlapSkip)},
	{method: "Fire", what: "a job with a backlog, overlap queue", do: fireBacklog(job.OverlapQueue)},
	{method: "UpdateJob", what: "pauses a job with a backlog", do: update(func(j *job.Job) { j.State = job.Paused })},
	{method: "Settle", what: "the pause, till it is settled", times: 1000, do: goes(func(b *bench) (int, error) { return b.Settle(b.ctx, engine.HoldsAtOnce) })},
	{method: "CountDue", what: "while it is paused", pieces: true, do: once(func(b *bench) (map[engine.DueKey]int, error) { return b.CountDue(b.ctx) })},
	{method: "UpdateJob", what: "resumes it", do: update(func(j *job.Job) { j.State = job.Active })},
	{method: "Settle", what: "the resumption, till it is settled", times: 1000, do: goes(func(b *bench) (int, error) { return b.Settle(b.ctx, engine.HoldsAtOnce) })},
	{method: "Fire", what: "a job with a backlog, overlap replace", do: fireBacklog(job.OverlapReplace)},
	{method: "DeleteJob", what: "a job with a backlog", do: once(func(b *bench) (engine.Deleted, error) {
		now := b.now()
		return b.DeleteJob(b.ctx, tenant.Default, engine.Deletion{Job: b.backlog.ID, AsOf: now, Rest: &job.Operation{
			ID: newID(), Tenant: tenant.Default, Kind: job.OpCancelWaiting, State: job.OpRunning, Spec: []byte("{}"), CreatedAt: now, UpdatedAt: now,
		}})
	})},
	{method: "CancelWaiting", what: "5000 at a time", times: 10, do: goes(func(b *bench) (int, error) {
		ended, err := b.CancelWaiting(b.ctx, tenant.Default, b.backlog.ID, engine.CancelsAtOnce)
		return len(ended), err
	})},
	{method: "Leave", what: "with its part of the leases", do: once(func(b *bench) (engine.Requeued, error) { return b.Leave(b.ctx, copyOf(sessionIDs, 1)) })},
	{
		method: "Reap", what: "all sessions have expired", times: 30,
		before: func(b *bench) { must(0, b.exec("UPDATE sessions SET expires_at = "+b.after("started_at", "1"))) },
		do:     goes(func(b *bench) (int, error) { r, err := b.Reap(b.ctx, 1000, 3); return r.Leases, err }),
	},
	{method: "Overrun", what: "after that", do: once(func(b *bench) ([]engine.Overrun, error) { return b.Overrun(b.ctx, 5*time.Second, 100) })},
	{method: "Renew", what: "1000 sessions that have ended", do: once(func(b *bench) (engine.Orders, error) {
		rs := make([]engine.Renewal, min(1000, b.sizes.sessions))
		for i := range rs {
			rs[i] = engine.Renewal{Worker: copyOf(sessionIDs, 1+i)}
		}
		return b.Renew(b.ctx, rs, time.Hour)
	})},
	{
		method: "Tidy", what: "sessions that ended long ago", times: 200,
		before: func(b *bench) {
			must(0, b.exec("UPDATE sessions SET expires_at = "+b.after("started_at", "-2 * 24 * 3600000000")+", deposed = "+b.truth()))
		},
		do: func(b *bench) (bool, error) { return b.Tidy(b.ctx) },
	},
	{method: "CountDue", what: "while a paused job holds a million", pieces: true, before: holdMany, do: func(b *bench) (bool, error) {
		due, err := b.CountDue(b.ctx)
		n := 0
		for _, k := range due {
			n += k
		}
		return true, want(err, n, b.due, "executions that are due")
	}},
}

// holdMany has a job hold very many executions, and notes how many are due without them.
func holdMany(b *bench) {
	b.due = 0
	for _, n := range must(b.CountDue(b.ctx)) {
		b.due += n
	}
	j := b.literal(b.held[0].ID)
	b.copies("live", "t.id = (SELECT id FROM live ORDER BY id LIMIT 1)", 1, b.sizes.held, map[string]string{
		"id": b.id(pausedIDs, "g.i"), "job": j, "scheduled_at": b.after("t.scheduled_at", "g.i"), "due_at": "t.scheduled_at", "nonce": "0", "hold": "1", "lease": "0", "unique_key": "NULL", "tally": b.truth(),
	})
	must(0, b.exec("UPDATE jobs SET state = 2 WHERE id = "+j))
}

// want fails a call that found another number of something.
func want(err error, got, want int, what string) error {
	if err == nil && got != want {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return err
}

func findJobs(f engine.JobFilter) func(*bench) (bool, error) {
	f.Tenant = tenant.Default
	return once(func(b *bench) (engine.JobPage, error) { return b.FindJobs(b.ctx, f, page) })
}

func findExecutions(f engine.ExecutionFilter) func(*bench) (bool, error) {
	f.Tenant = tenant.Default
	return once(func(b *bench) (engine.ExecutionPage, error) { return b.FindExecutions(b.ctx, f, page) })
}

// fireBacklog fires the job that has a backlog at its next instant.
func fireBacklog(o job.Overlap) func(*bench) (bool, error) {
	return once(func(b *bench) (engine.Fired, error) {
		j, err := b.Job(b.ctx, tenant.Default, engine.Ref{Key: "backlog"})
		if err != nil {
			return engine.Fired{}, err
		}
		next := j.NextRunAt.Add(time.Hour)
		return b.Fire(b.ctx, []engine.Firing{{
			Tenant: j.Tenant, Job: j.ID, Revision: j.Revision, Was: j.NextRunAt, Next: next, Runs: 1, Overlap: o, Executions: []job.Execution{j.Fire(newID(), j.NextRunAt, b.now())},
		}}, engine.Fence{})
	})
}

// update changes the job that has a backlog.
func update(change func(*job.Job)) func(*bench) (bool, error) {
	return once(func(b *bench) (job.Job, error) {
		j, err := b.Job(b.ctx, tenant.Default, engine.Ref{Key: "backlog"})
		if err != nil {
			return j, err
		}
		change(&j)
		return b.UpdateJob(b.ctx, tenant.Default, engine.Update{Job: j, AsOf: b.now()})
	})
}

func leases(as []job.Attempt) (ls []job.Lease) {
	for _, a := range as {
		ls = append(ls, a.Lease)
	}
	return ls
}

func lane(j *job.Job) job.Lane {
	return job.Lane{Partition: job.PartitionOf(j.ID), Tenant: j.Tenant, Class: j.Class(), Priority: j.Priority}
}

func (b *bench) backlogLane() job.Lane { return lane(&b.backlog) }

func (b *bench) spareJob() job.Job { return b.job(fmt.Sprintf("spare %d", len(b.spare)), time.Time{}) }

func cursors(ls []job.Lane) (cs []engine.LaneCursor) {
	for _, l := range ls {
		cs = append(cs, engine.LaneCursor{Lane: l})
	}
	return cs
}
