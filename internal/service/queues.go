package service

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// QueueLimit finds the limit and the pause of a tenant's queue; it may have neither.
func (s *Settings) QueueLimit(ctx context.Context, p tenant.Principal, queue string) (job.Limit, error) {
	ls, err := s.Limits(ctx, p)
	if err != nil {
		return job.Limit{}, err
	}
	for _, l := range ls {
		if l.Queue == queue {
			return l, nil
		}
	}
	return job.Limit{Tenant: p.Tenant, Queue: queue}, nil
}

// PauseQueue keeps executions in a tenant's queue from starting, until an instant if one is given; running ones
// continue. Every server obeys it within two seconds. Pausing it again changes reason and end.
func (s *Settings) PauseQueue(ctx context.Context, p tenant.Principal, queue, why string, until time.Time) (l job.Limit, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return l, err
	}
	now := s.now()
	until = until.UTC().Truncate(time.Microsecond)
	v := CheckQueue(queue)
	if !job.ValidNote(why) {
		v.Add("reason", why, job.WantNote)
	}
	if !until.IsZero() && !until.After(now) {
		v.Add("until", until.Format(time.RFC3339), "an instant in the future, or null for until it is resumed")
	}
	if err := v.Err(); err != nil {
		return l, err
	}
	if l, err = s.QueueLimit(ctx, p, queue); err != nil {
		return l, err
	}
	was := l.Pause
	if was.Holds(now) && was.Reason == why && was.Until.Equal(until) {
		return l, nil
	}
	l.Pause = job.Pause{At: now, Until: until, By: p.Name, Reason: why}
	if was.Holds(now) {
		l.Pause.At = was.At
	}
	told := differing(describedPause(was), describedPause(l.Pause))
	if err := s.store.PauseQueue(ctx, p.Tenant, queue, l.Pause, s.audited(p, "queue.pause", queue, told)); err != nil {
		return l, err
	}
	s.cfg.Refresh()
	return l, nil
}

// ResumeQueue lets executions in a tenant's queue start again; a queue that is not paused stays unchanged.
func (s *Settings) ResumeQueue(ctx context.Context, p tenant.Principal, queue string) (l job.Limit, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return l, err
	}
	if err := CheckQueue(queue).Err(); err != nil {
		return l, err
	}
	if l, err = s.QueueLimit(ctx, p, queue); err != nil || l.Pause.IsZero() {
		return l, err
	}
	told := differing(describedPause(l.Pause), describedPause(job.Pause{}))
	if err := s.store.PauseQueue(ctx, p.Tenant, queue, job.Pause{}, s.audited(p, "queue.resume", queue, told)); err != nil {
		return l, err
	}
	l.Pause = job.Pause{}
	s.cfg.Refresh()
	return l, nil
}

// CheckQueue returns what is wrong with the name of a queue.
func CheckQueue(queue string) (v job.Invalids) {
	if !job.ValidKey(queue) {
		v.Add("queue", queue, "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	}
	return v
}

// describedPause describes a pause in the audit log.
func describedPause(p job.Pause) fields {
	out := fields{"status": "ACTIVE", "pause_reason": "", "paused_until": ""}
	if !p.IsZero() {
		out["status"], out["pause_reason"] = "PAUSED", p.Reason
		if !p.Until.IsZero() {
			out["paused_until"] = p.Until.Format(time.RFC3339Nano)
		}
	}
	return out
}

// FirstExecutions reads executions in the given order; those that have gone meanwhile are left out.
func (s *Settings) FirstExecutions(ctx context.Context, p tenant.Principal, rs []job.Ready) ([]job.Execution, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	out := make([]job.Execution, 0, len(rs))
	for _, r := range rs {
		e, err := s.store.Execution(ctx, p.Tenant, r.ID)
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
