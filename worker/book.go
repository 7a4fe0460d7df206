package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// book collects the lines of one attempt's log and sends them, in batches and in order. Its size is limited: a writer
// waits for room, for a while, and then lines are dropped, which a line reports.
type book struct {
	send func(context.Context, client.LogRequest) (client.LogAnswer, error)
	lost func(error) // told that the lease is gone
	held client.Held
	ctx  context.Context // of the attempt
	all  *atomic.Int64   // bytes that all books of the pool hold

	mu      sync.Mutex
	lines   []client.LogLine // guarded by mu: lines that the server has not accepted
	size    int              // guarded by mu: bytes of them
	sent    int              // guarded by mu: lines that it has
	dropped int              // guarded by mu: lines dropped since the last that was kept
	full    bool             // guarded by mu: there was no room for long; nobody waits until there is
	refused bool             // guarded by mu: the server accepts no more lines of this attempt
	running bool             // guarded by mu: a goroutine is sending
	ending  bool             // guarded by mu: no more lines are collected
	writers []*lineWriter    // guarded by mu
	room    chan struct{}    // guarded by mu: closed and replaced when lines were accepted
	hurry   chan struct{}    // there is enough for a batch, or the book is closing
	idle    chan struct{}    // guarded by mu: closed when nobody sends
}

func newBook(ctx context.Context, held client.Held, all *atomic.Int64, send func(context.Context, client.LogRequest) (client.LogAnswer, error), lost func(error)) *book {
	return &book{ctx: ctx, held: held, all: all, send: send, lost: lost, room: make(chan struct{}), hurry: make(chan struct{}, 1)}
}

func (b *book) attach(w *lineWriter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writers = append(b.writers, w)
}

// line adds a line; one that is too long is cut off.
func (b *book) line(stream, text string) {
	text = short(text, maxLine)
	l := client.LogLine{At: time.Now(), Stream: stream, Text: text}
	n := len(text) + lineCost
	var late <-chan time.Time
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.refused && b.crowded(n) {
		if b.full || b.ending {
			b.dropped++
			return
		}
		if late == nil {
			t := time.NewTimer(logWait)
			defer t.Stop()
			late = t.C
		}
		room := b.room
		b.wake()
		b.mu.Unlock()
		gone := false
		select {
		case <-room:
		case <-late:
			gone = true
		case <-b.ctx.Done():
			gone = true
		}
		b.mu.Lock()
		if gone && b.crowded(n) {
			b.full = true
		}
	}
	if b.refused {
		return
	}
	b.mark(l.At)
	b.put(l)
	if !b.running {
		b.running, b.idle = true, make(chan struct{})
		go b.run()
	}
	if b.size >= logBatch || len(b.lines) >= batchMost {
		b.wake()
	}
}

// mark reports how many lines were dropped before the next one. The caller holds mu.
func (b *book) mark(at time.Time) {
	if b.dropped == 0 {
		return
	}
	text := fmt.Sprintf("… %d lines dropped: the server did not take them in time", b.dropped)
	b.put(client.LogLine{At: at, Stream: System, Text: text})
	b.dropped = 0
}

// crowded reports whether there is no room for n bytes, in this book or in all. An empty book always has room, since
// a writer is only woken when its own lines were accepted. The caller holds mu.
func (b *book) crowded(n int) bool {
	return b.size > 0 && (b.size+n > maxOnWay || b.all.Load()+int64(n) > poolOnWay)
}

// put adds a line. The caller holds mu.
func (b *book) put(l client.LogLine) {
	b.lines = append(b.lines, l)
	b.resize(b.size + len(l.Text) + lineCost)
}

// resize records how much the book holds. The caller holds mu.
func (b *book) resize(size int) {
	b.all.Add(int64(size - b.size))
	b.size = size
}

// wake sends the collected lines at once.
func (b *book) wake() {
	select {
	case b.hurry <- struct{}{}:
	default:
	}
}

// run sends until nothing is left.
func (b *book) run() {
	for fails := 0; ; {
		b.gather(fails)
		b.mu.Lock()
		batch := b.batch()
		if len(batch) == 0 {
			b.running = false
			close(b.idle)
			b.mu.Unlock()
			return
		}
		r := client.LogRequest{ExecutionID: b.held.ExecutionID, FencingToken: b.held.FencingToken, Offset: new(b.sent), Lines: batch}
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		a, err := b.send(ctx, r)
		cancel()
		if err == nil {
			fails = 0
			b.took(batch, a)
			continue
		}
		if stale(err) {
			b.stop()
			b.lost(err)
		} else if hopeless(err) || errors.Is(err, ErrSession) {
			b.stop()
		} else {
			fails++
		}
	}
}

// gather waits a little, so that lines are sent together, or longer if the server did not answer.
func (b *book) gather(fails int) {
	b.mu.Lock()
	now := b.ending || b.refused || b.size >= logBatch || len(b.lines) >= batchMost
	b.mu.Unlock()
	d := logDelay
	switch {
	case fails > 0:
		d = backoff(fails)
	case now:
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.hurry:
		if fails > 0 {
			<-t.C
		}
	}
}

// batch returns what is sent next. The caller holds mu.
func (b *book) batch() []client.LogLine {
	size := 0
	for i, l := range b.lines {
		size += len(l.Text) + lineCost
		if i > 0 && (size > logBatch || i == batchMost) {
			return b.lines[:i:i]
		}
	}
	return b.lines[:len(b.lines):len(b.lines)]
}

// took records that the server has a batch.
func (b *book) took(batch []client.LogLine, a client.LogAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused {
		return // it was abandoned while the batch was in flight
	}
	size := b.size
	for _, l := range batch {
		size -= len(l.Text) + lineCost
	}
	b.resize(size)
	b.lines = b.lines[len(batch):]
	b.sent += len(batch)
	b.full = false
	if len(b.lines) == 0 {
		b.lines = nil // sent lines are not kept
	}
	if a.Cut {
		b.discard()
	}
	close(b.room)
	b.room = make(chan struct{})
}

// stop gives up: the server will not accept more.
func (b *book) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discard()
	close(b.room)
	b.room = make(chan struct{})
}

// discard drops unsent lines, and all later ones. The caller holds mu.
func (b *book) discard() {
	b.refused, b.lines, b.dropped = true, nil, 0
	b.resize(0)
}

// close sends what is left, and returns when the server has accepted or refused it, or after too long; then ok is
// false.
func (b *book) close(over <-chan struct{}) (ok bool) {
	b.mu.Lock()
	writers := b.writers
	b.mu.Unlock()
	for _, w := range writers {
		w.flush()
	}
	b.mu.Lock()
	b.ending = true
	if !b.refused {
		b.mark(time.Now())
	}
	if len(b.lines) > 0 && !b.running {
		b.running, b.idle = true, make(chan struct{})
		go b.run()
	}
	idle, running := b.idle, b.running
	b.mu.Unlock()
	if !running {
		return true
	}
	b.wake()
	t := time.NewTimer(logFlush)
	defer t.Stop()
	select {
	case <-idle:
		return true
	case <-over:
	case <-t.C:
	}
	b.stop()
	return false
}

// stale reports whether an answer means that the lease is lost.
func stale(err error) bool {
	var r *client.Problem
	return errors.As(err, &r) && r.Code == client.CodeStaleToken
}
