package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/worker"
)

// remote is a worker outside the servers and its line to them, as package client has one, over a network that loses,
// delays and repeats what is sent.
type remote struct {
	w    *world
	name string
	ctx  context.Context // ends when it is killed
	kill context.CancelFunc

	mu    sync.Mutex
	rng   *rand.Rand    // guarded by mu
	at    int           // guarded by mu: the server it turns to
	moves chan struct{} // guarded by mu: closed while it does not stand still
}

func (w *world) startRemote() {
	r := &remote{w: w, name: w.name("w"), moves: make(chan struct{})}
	close(r.moves)
	r.rng = stream(w.seed, r.name)
	r.ctx, r.kill = context.WithCancel(w.ctx)
	pool := worker.New(r, &executor{w: w, proc: r.name, gone: r.ctx.Done(), still: r.still}, w.pool(r.name))
	w.wg.Go(func() { pool.Run(r.ctx) })
	w.mu.Lock()
	w.remotes = append(slices.Clone(w.remotes), r)
	w.mu.Unlock()
}

// killRemote ends a worker at once: nobody hears of it again. After a time there is another one.
func (w *world) killRemote(whom int, after time.Duration) {
	w.mu.Lock()
	if len(w.remotes) == 0 {
		w.mu.Unlock()
		return
	}
	i := whom % len(w.remotes)
	r := w.remotes[i]
	w.remotes = slices.Delete(slices.Clone(w.remotes), i, i+1)
	w.mu.Unlock()
	w.fault("kill", r.name)
	r.kill()
	r.resume()
	w.wg.Go(func() {
		if w.after(min(after, 2*lease)) {
			w.startRemote()
		}
	})
}

// pauseRemote makes a worker stand still, for up to two leases: what it sends and what it runs waits.
func (w *world) pauseRemote(whom int, last time.Duration) {
	w.mu.Lock()
	if len(w.remotes) == 0 {
		w.mu.Unlock()
		return
	}
	r := w.remotes[whom%len(w.remotes)]
	w.mu.Unlock()
	r.mu.Lock()
	select {
	case <-r.moves:
		r.moves = make(chan struct{})
	default: // it stands still already
	}
	r.mu.Unlock()
	w.fault("pause", r.name)
	w.wg.Go(func() {
		w.after(last)
		r.resume()
	})
}

func (r *remote) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.moves:
	default:
		close(r.moves)
	}
}

// still is closed when the worker moves.
func (r *remote) still() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moves
}

// fate is what happens to a call on its way.
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
		f.late = upTo(r.rng, lease)
	}
	return f
}

// send carries one call to a server. What a caller no longer waits for may still arrive, now or later.
func send[T any](ctx context.Context, r *remote, call func(context.Context, *server) (T, error)) (T, error) {
	var zero T
	f := r.roll()
	if f.repeated {
		r.w.wg.Go(func() {
			if r.w.after(f.again) {
				_, _ = deliver(r.w.ctx, r, f.at, call)
			}
		})
	}
	select {
	case <-r.still():
	case <-ctx.Done():
		r.w.wg.Go(func() {
			<-r.still()
			_, _ = deliver(r.w.ctx, r, f.at, call)
		})
		return zero, ctx.Err()
	}
	if r.ctx.Err() != nil {
		return zero, client.ErrSession // so that what is left of the pool ends
	}
	if f.late > 0 {
		t := time.NewTimer(f.late)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			r.w.wg.Go(func() {
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

// deliver hands a call to a server, which may die over it.
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
			ID: job.WorkerID(uuid.Must(uuid.NewV7())), Host: x.Host, Capacity: x.Capacity, Targets: x.Targets, Kinds: x.Kinds,
			StartedAt: time.Now().UTC().Truncate(time.Microsecond),
		}
		if err := s.disp.Register(ctx, w); err != nil {
			return client.Session{}, err
		}
		seconds := int(lease / time.Second)
		return client.Session{WorkerID: w.ID.String(), Session: w.ID.String(), LeaseSeconds: seconds, BeatSeconds: seconds / 3}, nil
	})
}

func (r *remote) Claim(ctx context.Context, x client.Session, limit int) ([]client.Attempt, error) {
	return send(ctx, r, func(ctx context.Context, s *server) ([]client.Attempt, error) { return s.door.Claim(ctx, x, limit) })
}

func (r *remote) Beat(ctx context.Context, x client.Session, b client.Beat) (client.Orders, error) {
	return send(ctx, r, func(ctx context.Context, s *server) (client.Orders, error) { return s.door.Beat(ctx, x, b) })
}

func (r *remote) Report(ctx context.Context, x client.Session, os []client.Outcome) ([]client.Verdict, error) {
	os = slices.Clone(os) // the caller uses its slice again, and this call may be repeated
	return send(ctx, r, func(ctx context.Context, s *server) ([]client.Verdict, error) { return s.door.Report(ctx, x, os) })
}

func (r *remote) Release(ctx context.Context, x client.Session, held []client.Held) error {
	held = slices.Clone(held)
	_, err := send(ctx, r, func(ctx context.Context, s *server) (struct{}, error) {
		return struct{}{}, s.door.Release(ctx, x, held)
	})
	return err
}

func (r *remote) Leave(ctx context.Context, x client.Session) error {
	_, err := send(ctx, r, func(ctx context.Context, s *server) (struct{}, error) { return struct{}{}, s.door.Leave(ctx, x) })
	return err
}
