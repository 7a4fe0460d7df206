package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// batch combines concurrent calls into one: while one runs, new ones wait and are combined in the next. A lone call
// runs at once.
type batch[Q, A any] struct {
	max int // requests in one
	do  func(context.Context, []Q) ([]A, error)

	mu      sync.Mutex
	waiting []*request[Q, A] // guarded by mu
	running bool             // guarded by mu
}

type request[Q, A any] struct {
	ask  Q
	ans  A
	err  error
	done chan struct{}
}

// batchTimeout limits a call that serves several callers, none of whom may end it.
const batchTimeout = 10 * time.Second

// call sends a request, and waits for the answer or the end of ctx; the request may then happen all the same.
func (b *batch[Q, A]) call(ctx context.Context, q Q) (A, error) {
	r := &request[Q, A]{ask: q, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, r)
	if !b.running {
		b.running = true
		go b.run(context.WithoutCancel(ctx))
	}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.ans, r.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// run serves waiting requests until there are none.
func (b *batch[Q, A]) run(ctx context.Context) {
	for {
		b.mu.Lock()
		rs := b.waiting[:min(b.max, len(b.waiting))]
		b.waiting = b.waiting[len(rs):]
		if len(rs) == 0 {
			b.running, b.waiting = false, nil
		}
		b.mu.Unlock()
		if len(rs) == 0 {
			return
		}
		b.serve(ctx, rs)
	}
}

// serve answers requests together or, if that fails although the store is available, one by one: one bad request must
// not fail the others.
func (b *batch[Q, A]) serve(ctx context.Context, rs []*request[Q, A]) {
	qs := make([]Q, len(rs))
	for i, r := range rs {
		qs[i] = r.ask
	}
	as, err := b.try(ctx, qs)
	if err != nil && len(rs) > 1 && !isUnavailable(err) {
		for _, r := range rs {
			b.serve(ctx, []*request[Q, A]{r})
		}
		return
	}
	for i, r := range rs {
		if r.err = err; err == nil {
			r.ans = as[i]
		}
		close(r.done)
	}
}

func (b *batch[Q, A]) try(ctx context.Context, qs []Q) (as []A, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v: %w\n%s", p, engine.ErrUnavailable, debug.Stack())
		}
	}()
	return b.do(ctx, qs)
}
