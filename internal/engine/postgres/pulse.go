package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// A statement may take seconds because it has much to do, or because the server no longer answers. After slowAfter,
// the server is pinged on a separate connection. If neither the ping nor any other statement is answered in
// pulseTime, all calls that have waited that long are told that the store is down.
//
// Something on the network may drop an idle connection, after which nothing ever comes back on it. So one that does
// not answer in keptTime is replaced.
//
// The package's tests wait longer for it.
var (
	slowAfter = 1000 * time.Millisecond
	pulseTime = 800 * time.Millisecond
	keptTime  = 300 * time.Millisecond
)

var errHung = fmt.Errorf("the server does not answer: %w", context.DeadlineExceeded)

// pulse pings a server.
type pulse struct {
	cfg  *pgx.ConnConfig
	last atomic.Pointer[time.Time] // when a statement was last answered

	mu   sync.Mutex
	conn *pgx.Conn     // guarded by mu: nil until needed
	beat chan struct{} // guarded by mu: closed when the current ping was answered, or failed
	ok   bool          // guarded by mu: its result
	shut bool          // guarded by mu
}

// guard cancels the context when its holder has waited long and the server is found not to answer.
func (p *pulse) guard(ctx context.Context) (guarded context.Context, done func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(slowAfter, func() {
		for guarded.Err() == nil {
			if !p.alive() {
				cancel(errHung)
				return
			}
			select {
			case <-guarded.Done():
			case <-time.After(pulseTime):
			}
		}
	})
	return guarded, func() {
		timer.Stop()
		cancel(nil)
	}
}

// explain names the store's silence if that is what cancelled the context.
func explain(ctx context.Context, doing string, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errHung) {
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrUnavailable, errHung)
	}
	return err
}

// answered records that a statement was answered.
func (p *pulse) answered() { p.last.Store(new(time.Now())) }

// alive pings, or waits for the answer to a ping in progress.
func (p *pulse) alive() bool {
	p.mu.Lock()
	beat := p.beat
	if beat == nil && !p.shut {
		beat = make(chan struct{})
		p.beat = beat
		go p.ask(beat)
	}
	p.mu.Unlock()
	if beat == nil {
		return true // closing; nobody needs to be told
	}
	<-beat
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ok
}

// ask pings once. A server that refuses the connection, or is not there, answers too: the waiting caller will see it.
func (p *pulse) ask(beat chan struct{}) {
	began := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(pulseTime))
	defer cancel()
	p.mu.Lock()
	c := p.conn
	p.conn = nil
	p.mu.Unlock()
	if c != nil && !kept(ctx, c) {
		end(c)
		c = nil
	}
	var err error
	if c == nil {
		if c, err = pgx.ConnectConfig(ctx, p.cfg.Copy()); err == nil {
			err = c.Ping(ctx)
		}
	}
	late := ctx.Err() != nil
	if err != nil && c != nil {
		end(c)
		c = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut && c != nil {
		end(c)
		c = nil
	}
	last := p.last.Load()
	p.conn, p.beat, p.ok = c, nil, err == nil || !late || last != nil && last.After(began)
	close(beat)
}

// kept reports whether an existing connection answers.
func kept(ctx context.Context, c *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, keptTime)
	defer cancel()
	return !c.IsClosed() && c.Ping(ctx) == nil
}

func (p *pulse) close() {
	p.mu.Lock()
	c := p.conn
	p.conn, p.shut = nil, true
	p.mu.Unlock()
	if c != nil {
		end(c)
	}
}

// end closes a connection without waiting for its server.
func end(c *pgx.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
}
