package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/worker"
)

// remote is a worker outside the servers and its connection to them, like package client, over a network that loses,
// delays and repeats messages.
type remote struct {
	w    *world
	name string
	n    int // which of the script's it is
	exec *executor
	ctx  context.Context // ends when it is killed
	kill context.CancelFunc
	stop context.CancelFunc // asks it to drain and leave

	mu    sync.Mutex
	rng   *rand.Rand    // guarded by mu
	at    int           // guarded by mu: its current server
	moves chan struct{} // guarded by mu: closed while it is not suspended
	heard chan struct{} // guarded by mu: closed while its messages get through
}

// startRemote starts the n-th worker, or a replacement for it.
func (w *world) startRemote(n int) {
	p := w.picky[n]
	r := &remote{w: w, name: w.name("w"), n: n, moves: make(chan struct{}), heard: make(chan struct{})}
	close(r.moves)
	close(r.heard)
	r.rng = stream(w.seed, r.name)
	r.ctx, r.kill = context.WithCancel(w.ctx)
	r.exec = &executor{w: w, proc: r.name, gone: r.ctx.Done(), still: r.still, whose: p.whose}
	cfg := w.pool(r.name)
	cfg.Kinds = []string{p.kind}
	pool := worker.New(r, r.exec, cfg)
	serving, stop := context.WithCancel(r.ctx)
	r.stop = stop
	w.wg.Go(func() { pool.Run(serving) })
	w.mu.Lock()
	w.remotes = append(slices.Clone(w.remotes), r)
	w.mu.Unlock()
}

// killRemote ends a worker: if killed, it falls silent; if stopped, it drains and leaves. After a time a replacement
// starts.
func (w *world) killRemote(whom int, after time.Duration, how string) {
	w.mu.Lock()
	if len(w.remotes) == 0 {
		w.mu.Unlock()
		return
	}
	i := whom % len(w.remotes)
	r := w.remotes[i]
	w.remotes = slices.Delete(slices.Clone(w.remotes), i, i+1)
	w.mu.Unlock()
	w.fault(how, r.name)
	if how == "kill" {
		r.kill()
	}
	r.stop()
	r.resume()
	w.wg.Go(func() {
		if w.after(min(after, 2*lease)) {
			w.startRemote(r.n)
		}
	})
}

// pauseRemote delays what a worker sends, for up to three leases, and, if it is suspended, also its executions.
func (w *world) pauseRemote(whom int, last time.Duration, still bool) {
	w.mu.Lock()
	if len(w.remotes) == 0 {
		w.mu.Unlock()
		return
	}
	r := w.remotes[whom%len(w.remotes)]
	w.mu.Unlock()
	op := "cut"
	r.mu.Lock()
	shut(&r.heard)
	if still {
		op = "pause"
		shut(&r.moves)
	}
	r.mu.Unlock()
	w.fault(op, r.name)
	w.wg.Go(func() {
		w.after(last)
		r.resume()
	})
}

func (r *remote) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, gate := range []chan struct{}{r.moves, r.heard} {
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
}

// shut replaces an open gate by a closed one.
func shut(gate *chan struct{}) {
	select {
	case <-*gate:
		*gate = make(chan struct{})
	default:
	}
}

// still is closed while the worker moves.
func (r *remote) still() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moves
}

// through is closed while the worker's messages get through.
func (r *remote) through() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard
}

// fate decides what happens to a call on its way.
type fate struct {
	lost, unanswered, repeated bool
	late, again                time.Duration
	at                         int
}

func (r *remote) roll() fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := fate{at: r.at}
	if !r.w.broken.Load() {
		return f
	}
	n, x := r.w.script.net, r.rng.Float64()
	f.lost, f.unanswered = x < n.lostRequest, x > 1-n.lostAnswer
	if r.rng.Float64() < n.repeated {
		f.repeated, f.again = true, upTo(r.rng, 2*lease)
	}
	if r.rng.Float64() < n.late {
		f.late = upTo(r.rng, 2*lease)
	}
	return f
}

// send carries one call to a server. A call that its caller has abandoned may still arrive, now or later.
func send[T any](ctx context.Context, r *remote, call func(context.Context, *server) (T, error)) (T, error) {
	var zero T
	f := r.roll()
	if f.repeated {
		r.w.later(func() {
			if r.w.after(f.again) {
				_, _ = deliver(r.w.ctx, r, f.at, call)
			}
		})
	}
	select {
	case <-r.through():
	case <-ctx.Done():
		r.w.later(func() {
			<-r.through()
			_, _ = deliver(r.w.ctx, r, f.at, call)
		})
		return zero, ctx.Err()
	}
	if r.ctx.Err() != nil {
		return zero, client.ErrSession // so that the rest of the pool ends
	}
	if f.late > 0 {
		t := time.NewTimer(f.late)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			r.w.later(func() {
				if r.w.after(f.late) {
					_, _ = deliver(r.w.ctx, r, f.at, call)
				}
			})
			return zero, ctx.Err()
		}
	}
	if f.lost {
		return zero, errAway
	}
	out, err := deliver(ctx, r, f.at, call)
	switch {
	case r.ctx.Err() != nil:
		return zero, client.ErrSession
	case f.unanswered || ctx.Err() != nil:
		return zero, errAway
	}
	return out, err
}

// deliver hands a call to a server, which may die of it.
func deliver[T any](ctx context.Context, r *remote, at int, call func(context.Context, *server) (T, error)) (T, error) {
	var zero T
	s := r.w.aServer(at)
	if s == nil {
		return zero, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	out, err := call(ctx, s)
	if !s.alive() {
		err = errAway
	}
	if err != nil { // it turns to the next
		r.mu.Lock()
		r.at = at + 1
		r.mu.Unlock()
		return zero, err
	}
	return out, nil
}

func (r *remote) Register(ctx context.Context, x client.Registration) (client.Session, error) {
	return send(ctx, r, func(ctx context.Context, s *server) (client.Session, error) {
		w := job.Worker{
			ID: job.WorkerID(uuid.Must(uuid.NewV7())), Tenant: r.exec.whose, Host: x.Host, Capacity: x.Capacity, Targets: x.Targets, Kinds: x.Kinds,
			StartedAt: time.Now().UTC().Truncate(time.Microsecond),
		}
		if err := s.disp.Register(ctx, w); err != nil {
			return client.Session{}, err
		}
		seconds := int(lease / time.Second)
		return client.Session{WorkerID: w.ID.String(), Session: w.ID.String(), LeaseSeconds: seconds, BeatSeconds: seconds / 3}, nil
	})
}

// speak carries a call of a session, which the server looks up first, like the API: so it learns of one that began
// elsewhere.
func speak[T any](ctx context.Context, r *remote, x client.Session, call func(context.Context, *server) (T, error)) (T, error) {
	return send(ctx, r, func(ctx context.Context, s *server) (T, error) {
		id, err := job.ParseWorkerID(x.WorkerID)
		if err == nil {
			_, err = s.disp.Worker(ctx, id)
		}
		if errors.Is(err, engine.ErrSession) {
			err = client.ErrSession
		}
		if err != nil {
			return *new(T), err
		}
		return call(ctx, s)
	})
}

func (r *remote) Claim(ctx context.Context, x client.Session, limit int) ([]client.Attempt, error) {
	return speak(ctx, r, x, func(ctx context.Context, s *server) ([]client.Attempt, error) { return s.door.Claim(ctx, x, limit) })
}

func (r *remote) Start(ctx context.Context, x client.Session, h client.Held) (client.Attempt, error) {
	return speak(ctx, r, x, func(ctx context.Context, s *server) (client.Attempt, error) { return s.door.Start(ctx, x, h) })
}

func (r *remote) Beat(ctx context.Context, x client.Session, b client.Beat) (client.Orders, error) {
	if r.w.flaws.NoSelfFence {
		return r.believe(ctx, x, b)
	}
	return speak(ctx, r, x, func(ctx context.Context, s *server) (client.Orders, error) { return s.door.Beat(ctx, x, b) })
}

func (r *remote) Report(ctx context.Context, x client.Session, os []client.Outcome) ([]client.Verdict, error) {
	os = slices.Clone(os) // the caller reuses its slice, and this call may be repeated
	return speak(ctx, r, x, func(ctx context.Context, s *server) ([]client.Verdict, error) { return s.door.Report(ctx, x, os) })
}

func (r *remote) Logs(ctx context.Context, x client.Session, l client.LogRequest) (client.LogAnswer, error) {
	return speak(ctx, r, x, func(ctx context.Context, s *server) (client.LogAnswer, error) { return s.door.Logs(ctx, x, l) })
}

func (r *remote) Release(ctx context.Context, x client.Session, held []client.Held) error {
	held = slices.Clone(held)
	_, err := speak(ctx, r, x, func(ctx context.Context, s *server) (struct{}, error) {
		return struct{}{}, s.door.Release(ctx, x, held)
	})
	return err
}

func (r *remote) Leave(ctx context.Context, x client.Session) error {
	_, err := speak(ctx, r, x, func(ctx context.Context, s *server) (struct{}, error) { return struct{}{}, s.door.Leave(ctx, x) })
	return err
}
