package sim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// local returns a principal who may do everything with a tenant's jobs.
func local(t tenant.ID) tenant.Principal {
	p := tenant.Local()
	p.Tenant = t
	return p
}

// caller is a client: it makes one request after the other, and retries, with the same key, if it was not answered.
type caller struct {
	w          *world
	name       string
	rng        *rand.Rand
	as         tenant.Principal
	jobs       []made // what it asked for, whether or not it knows that it exists
	executions []made
}

// made is what a client knows of something it asked for; a zero id is nothing.
type made struct {
	job       string
	id        job.ID
	execution job.ExecutionID
}

func (w *world) client(n int, wishes []wish) {
	c := &caller{w: w, name: fmt.Sprint("c", n), as: local(w.whose[n])}
	c.rng = stream(w.seed, c.name)
	begun := time.Now()
	for i, x := range wishes {
		if !w.after(x.at - time.Since(begun)) {
			return
		}
		tag := fmt.Sprintf("%s-%d", c.name, i)
		switch x.kind {
		case wishCreate:
			c.create(x)
		case wishTrigger:
			c.trigger(x, c.jobs[x.of], tag)
		case wishCancel:
			c.cancel(x, c.executions[x.of])
		case wishRerun:
			c.rerun(x, c.executions[x.of], tag)
		case wishDelete:
			c.delete(x, c.jobs[x.of])
		case wishLimit:
			c.limit(x)
		case wishPause:
			c.pause(x)
		case wishBulk:
			c.bulk(x, tag)
		case wishUpdate:
			c.update(x, c.jobs[x.of])
		case wishPauseJob, wishResumeJob:
			c.pauseJob(x, c.jobs[x.of])
		case wishFlow:
			c.makeFlow(x)
		case wishAct:
			c.act(x, c.executions[x.of], tag)
		case wishEvent:
			c.send(x)
		case wishDepend:
			c.depend(x, c.jobs[x.of])
		}
	}
}

// ask makes a request, retries it until it is answered, and records the result.
func (c *caller) ask(x wish, e check.Event, call func(context.Context, *service.Service, *check.Event) error) check.Kind {
	return c.askServer(x, e, func(ctx context.Context, s *server, e *check.Event) error { return call(ctx, s.svc, e) })
}

// askServer is ask for requests that the service does not handle.
func (c *caller) askServer(x wish, e check.Event, call func(context.Context, *server, *check.Event) error) check.Kind {
	e.Proc, e.Kind, e.Tenant = c.name, check.Invoke, string(c.as.Tenant)
	c.w.store.add(e)
	e.Kind = check.Unknown
	unsure := false
	for n := range x.try {
		if n > 0 && !c.w.after(x.gap) {
			break
		}
		s := c.w.aServer(c.rng.IntN(8))
		if s == nil {
			continue
		}
		e.Result = ""
		err := c.once(s, &e, call)
		if err == nil {
			e.Kind = check.OK
			break
		}
		e.Result = err.Error()
		var invalid job.Invalids
		var conflict *workflow.Conflict
		if unsure && (errors.As(err, &invalid) || errors.As(err, &conflict)) {
			break // a request that was valid at first may have succeeded, though its time has passed
		}
		if definite(err) {
			e.Kind = check.Fail
			break
		}
		unsure = true
	}
	c.w.store.add(e)
	return e.Kind
}

func (c *caller) once(s *server, e *check.Event, call func(context.Context, *server, *check.Event) error) error {
	ctx, cancel := context.WithTimeout(c.w.ctx, patience)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := call(ctx, s, e)
	if !s.alive() {
		return errAway
	}
	return err
}

// errInstead means that nothing was created because another execution has the unique key.
var errInstead = errors.New("another has the unique key")

// definite reports whether an error means that nothing was done.
func definite(err error) bool {
	var taken *service.KeyTaken
	var notDone *service.NotDone
	var invalid job.Invalids
	var conflict *workflow.Conflict
	var decided *workflow.Decided
	if errors.As(err, &conflict) || errors.As(err, &decided) {
		return true
	}
	return errors.Is(err, engine.ErrNotFound) || errors.Is(err, errInstead) || errors.As(err, &taken) || errors.As(err, &notDone) || errors.As(err, &invalid)
}

// once makes a request that may be repeated.
func once[T any](key string, encode func(T) []byte) service.Once[T] {
	return service.Once[T]{Key: key, Hash: sha256.Sum256([]byte(key)), Encode: encode}
}

func (c *caller) create(x wish) {
	d := x.def
	e := check.Event{Op: check.Create, Job: d.Name, Tag: d.Name}
	if d.Schedule.Type == job.OneTime {
		d.Schedule.At = c.w.now().Add(upTo(c.rng, 20*time.Second)).UTC().Truncate(time.Microsecond)
		e.SchedAt = d.Schedule.At
	}
	if recurs(d.Name) {
		d.Schedule.End, e.Many = c.w.now().Add(x.last).UTC().Truncate(time.Microsecond), true
	}
	if strings.HasPrefix(d.Name, chained) {
		e.Many = true // it fires when the jobs that it depends on have ended, or somebody triggers it
	}
	m := made{job: d.Name}
	type answer struct {
		ID        job.ID
		Execution job.ExecutionID
		Instead   bool
	}
	key := once(d.Name, func(all []service.NewJob) []byte {
		b, _ := json.Marshal(answer{all[0].Job.ID, all[0].Execution, all[0].Instead}) // bytes always encode
		return b
	})
	c.ask(x, e, func(ctx context.Context, s *service.Service, _ *check.Event) error {
		got, replay, err := s.CreateJob(ctx, c.as, d, key)
		var a answer
		switch {
		case err == nil && replay != nil:
			err = json.Unmarshal(replay, &a)
		case err == nil:
			a = answer{got.Job.ID, got.Execution, got.Instead}
		}
		if err == nil && a.Instead {
			err = errInstead
		}
		if err == nil {
			m.id, m.execution = a.ID, a.Execution
		}
		return err
	})
	c.jobs, c.executions = append(c.jobs, m), append(c.executions, m)
}

// bulk creates several jobs with one call: all of them, or none.
func (c *caller) bulk(x wish, tag string) {
	others := func(k check.Kind) {
		for _, d := range x.defs[1:] {
			c.w.store.add(check.Event{Proc: c.name, Kind: k, Op: check.Create, Tenant: string(c.as.Tenant), Job: d.Name, Tag: d.Name})
		}
	}
	others(check.Invoke)
	ms := make([]made, len(x.defs))
	key := once(tag, func(all []service.NewJob) []byte {
		b, _ := json.Marshal(idsOf(all)) // bytes always encode
		return b
	})
	first := x.defs[0].Name
	e := c.ask(x, check.Event{Op: check.Create, Job: first, Tag: first}, func(ctx context.Context, s *service.Service, _ *check.Event) error {
		got, replay, err := s.CreateJobs(ctx, c.as, slices.Clone(x.defs), key)
		ids := idsOf(got)
		if err == nil && replay != nil {
			err = json.Unmarshal(replay, &ids)
		}
		for i, id := range ids {
			ms[i] = made{job: x.defs[i].Name, id: id}
		}
		return err
	})
	others(e)
	c.jobs, c.executions = append(c.jobs, ms...), append(c.executions, ms...)
}

func idsOf(all []service.NewJob) []job.ID {
	ids := make([]job.ID, len(all))
	for i, j := range all {
		ids[i] = j.Job.ID
	}
	return ids
}

func (c *caller) trigger(x wish, m made, tag string) {
	out := made{job: m.job}
	if !m.id.IsZero() {
		c.ask(x, check.Event{Op: check.Trigger, Job: m.job, Tag: tag}, func(ctx context.Context, s *service.Service, e *check.Event) error {
			got, replay, err := s.Trigger(ctx, c.as, engine.Ref{ID: m.id}, payload(tag, x.key), once(tag, executionID))
			out.execution, err = c.answered(e, got.Execution, replay, err)
			return err
		})
	}
	c.executions = append(c.executions, out)
}

func (c *caller) rerun(x wish, m made, tag string) {
	out := made{job: m.job}
	if !m.execution.IsZero() {
		c.ask(x, check.Event{Op: check.Trigger, Job: m.job, Tag: tag}, func(ctx context.Context, s *service.Service, e *check.Event) error {
			got, replay, err := s.Retry(ctx, c.as, m.execution, payload(tag, x.key), once(tag, executionID))
			out.execution, err = c.answered(e, got, replay, err)
			return err
		})
	}
	c.executions = append(c.executions, out)
}

func executionID(e job.Execution) []byte { return e.ID[:] }

// answered returns the execution in an answer; errInstead if it is not the requested one.
func (c *caller) answered(e *check.Event, got job.Execution, replay []byte, err error) (id job.ExecutionID, _ error) {
	if err != nil {
		return id, err
	}
	id = got.ID
	if replay != nil {
		copy(id[:], replay)
	}
	if c.w.store.tag(id) != e.Tag {
		return job.ExecutionID{}, errInstead
	}
	e.Execution = c.w.store.name(id)
	return id, nil
}

func (c *caller) cancel(x wish, m made) {
	if m.execution.IsZero() {
		return
	}
	c.ask(x, check.Event{Op: check.Cancel, Job: m.job, Execution: c.w.store.name(m.execution)}, func(ctx context.Context, s *service.Service, e *check.Event) error {
		got, err := s.Cancel(ctx, c.as, m.execution, "")
		if err == nil {
			e.Result = got.Status.String()
		}
		return err
	})
}

func (c *caller) limit(x wish) {
	c.ask(x, check.Event{Op: check.Limited, Queue: x.lim.Queue, Max: x.lim.Max}, func(ctx context.Context, s *service.Service, _ *check.Event) error {
		return s.SetLimit(ctx, c.as, x.lim)
	})
}

func (c *caller) pause(x wish) {
	var until time.Time
	if x.last > 0 {
		until = c.w.now().Add(x.last)
	}
	c.ask(x, check.Event{Op: check.Paused, Queue: slow, SchedAt: until}, func(ctx context.Context, s *service.Service, _ *check.Event) (err error) {
		if until.IsZero() {
			_, err = s.ResumeQueue(ctx, c.as, slow)
		} else {
			_, err = s.PauseQueue(ctx, c.as, slow, "", until)
		}
		return err
	})
}

func (c *caller) delete(x wish, m made) {
	if m.id.IsZero() {
		return
	}
	c.ask(x, check.Event{Op: check.Delete, Job: m.job}, func(ctx context.Context, s *service.Service, _ *check.Event) error {
		_, err := s.DeleteJob(ctx, c.as, engine.Ref{ID: m.id})
		return err
	})
}
