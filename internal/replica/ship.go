package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// Config says what to ship where.
type Config struct {
	Place     blob.Store
	Mounted   bool          // the place is a folder, which is an empty one while its file system is not mounted
	Folder    string        // for what is not stored yet; it is beside the store, so that a crash leaves both
	Every     time.Duration // how often segments are cut
	Snapshots time.Duration // how often a snapshot is taken
	Keep      time.Duration // how far back a store can be restored
	Spool     int64         // how many bytes of segments may wait
	Host      string
	Version   string
	Log       *slog.Logger
	Now       func() time.Time // nil: time.Now
}

// The times of shipping.
const (
	answers     = 30 * time.Second // for which the place may take to store a segment
	lastWords   = 10 * time.Second // for the remainder, when the process stops
	again       = time.Minute      // after a snapshot that failed
	longestWait = 10 * time.Second // between tries to store something
	tooFar      = 10 * time.Second // behind
	pruneEvery  = time.Hour
)

// Shipper keeps the replica of one store.
type Shipper struct {
	cfg   Config
	tap   *sqlite.Tap
	store *sqlite.Store
	local local
	wake  chan struct{} // something was cut
	prune chan struct{}
	work  sync.WaitGroup // snapshots

	mu       sync.Mutex
	created  time.Time
	epoch    int64
	gen      *generation
	queue    []segment
	restart  error     // why the generation cannot go on
	mark     string    // of a folder that was written to; see there
	away     bool      // the folder did not have it
	batch    []segment // stored, and to be merged
	most     int       // segments in a merged object
	merges   bool
	staging  bool
	storing  string    // the snapshot that is being staged or stored
	retry    time.Time // before which no snapshot is tried
	fails    int       // in a row
	failing  error
	complete time.Time // everything acknowledged before is stored
	counts   Counts
}

// Counts are totals since the start.
type Counts struct {
	Segments, Snapshots, Generations, Bytes, Failures int64
}

// generation is the one that is written; only the goroutine of tick changes it, with mu held.
type generation struct {
	id       string
	index    int64 // of the last segment that was cut
	sum      string
	ended    time.Time // of the last segment
	snapshot time.Time // when the newest whole snapshot was taken; zero: there is none
	known    bool      // the place is known to have what was stored before
	end      context.CancelFunc
	ctx      context.Context //nolint:containedctx // of the snapshots of the generation
}

// segment waits to be stored.
type segment struct {
	object
	head
}

// New makes a shipper, which goes on where the last process with this folder stopped, if nothing is missing.
func New(cfg Config) (*Shipper, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for what is to be replicated: %w", err)
	}
	s := &Shipper{cfg: cfg, wake: make(chan struct{}, 1), prune: make(chan struct{}, 1), most: mergeCount, local: local{cfg.Folder}}
	state, waiting := s.local.load(cfg.Place.String())
	s.tap = sqlite.NewTap(state.Tap, cfg.Now)
	s.mark = s.local.mark(cfg.Place.String())
	if state.Generation != "" {
		s.created, s.queue, s.complete = state.Store, waiting, state.Ended
		s.gen = &generation{id: state.Generation, index: state.Index, sum: state.Sum, ended: state.Ended, snapshot: state.Snapshot}
		if n := len(waiting); n > 0 {
			last := waiting[n-1]
			s.gen.index, s.gen.sum, s.gen.ended = last.Index, last.sum, last.Ended
		}
	}
	return s, nil
}

// Tap returns what the store has to be opened with; nil if nothing is shipped.
func (s *Shipper) Tap() *sqlite.Tap {
	if s == nil {
		return nil
	}
	return s.tap
}

// Bind tells which store was opened. If the place can be reached and is another store's, ErrOthers.
func (s *Shipper) Bind(ctx context.Context, store *sqlite.Store) error {
	id, err := store.Identify(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	resumed := s.gen != nil && s.tap.Resumed() && s.created.Equal(id.Created)
	s.store, s.created, s.epoch = store, id.Created, id.Epoch
	if resumed {
		s.gen.ctx, s.gen.end = context.WithCancel(context.Background())
	} else {
		s.drop(nil)
	}
	if s.complete.IsZero() {
		s.complete = s.cfg.Now()
	}
	if _, err := s.alone(ctx); errors.Is(err, ErrOthers) {
		return err
	}
	return nil // if it cannot be reached, begin asks again
}

// alone fails if another store's replica is at the place. It returns the last generation there.
func (s *Shipper) alone(ctx context.Context) (newest string, err error) {
	followed := map[string]bool{}
	var all []string
	err = blob.Each(ctx, s.cfg.Place, generations, func(x blob.Info) error {
		if !known(x.Name) {
			return nil
		}
		h, err := peekHead(ctx, s.cfg.Place, x.Name)
		if errors.Is(err, blob.ErrNotFound) || errors.As(err, new(*blob.Damaged)) {
			return nil
		}
		if err == nil {
			all = append(all, h.Generation)
			followed[h.After] = true
		}
		if err == nil && !h.Store.Equal(s.created) {
			err = fmt.Errorf("%w: %s has %s, of the store created at %s on %s; this store was created at %s", ErrOthers, s.cfg.Place, h.Generation, show(h.Store), h.Host, show(s.created))
		}
		return err
	})
	for _, id := range all { // in the order of the clock
		if !followed[id] {
			newest = id
		}
	}
	return newest, err
}

func show(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Run ships until ctx ends, and then what is left, for as long as that may take.
func (s *Shipper) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { loop.Run(ctx, s.cfg.Log, "replica", nil, s.tick) })
	loops.Go(func() { loop.Run(ctx, s.cfg.Log, "replica storing", s.wake, s.ship) })
	loops.Go(func() { loop.Run(ctx, s.cfg.Log, "replica retention", s.prune, s.retain) })
	loops.Wait()
	s.mu.Lock()
	if s.gen != nil {
		s.gen.end()
	}
	s.mu.Unlock()
	s.work.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if s.current() == nil {
		return
	}
	changes, err := s.tap.Cut()
	if err == nil {
		err = s.keep(changes)
	}
	if err != nil {
		s.cfg.Log.Warn("the process stops before all changes were replicated", "place", s.cfg.Place.String(), "because", err)
		return
	}
	if s.first() == nil {
		return
	}
	if _, err := s.ship(last); err != nil || s.first() != nil {
		s.cfg.Log.Warn("the process stops before all changes were replicated; the next one goes on with them", "place", s.cfg.Place.String(), "error", errors.Join(err, s.failure()))
	}
}

func (s *Shipper) current() *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gen
}

func (s *Shipper) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing
}

// Closed records, once the store was closed, that nothing is left to ship, or what is.
func (s *Shipper) Closed() {
	if s == nil {
		return
	}
	state, ok := s.tap.Finished()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && s.gen != nil && s.restart == nil {
		s.local.finish(state, s.gen.index, s.gen.sum)
	}
}

// tick cuts a segment, and begins what has to begin.
func (s *Shipper) tick(ctx context.Context) (time.Duration, error) {
	s.mu.Lock()
	if s.restart != nil {
		s.drop(s.restart)
	}
	gen := s.gen
	s.mu.Unlock()
	if gen == nil {
		return s.begin(ctx)
	}
	changes, err := s.tap.Cut()
	if err == nil {
		err = s.keep(changes)
	}
	if err == nil && s.due() {
		err = s.snapshot(ctx, gen, false)
	}
	if errors.Is(err, errLater) {
		err = nil
	}
	if err != nil && ctx.Err() == nil {
		s.mu.Lock()
		s.drop(err)
		s.mu.Unlock()
		return 0, nil
	}
	return s.cfg.Every, nil
}

// drop ends the generation, with mu held; why is nil if there was none.
func (s *Shipper) drop(why error) {
	if why != nil {
		s.cfg.Log.Warn("changes could not be replicated without a gap; a new generation begins, with a snapshot", "place", s.cfg.Place.String(), "because", why)
	}
	if s.gen != nil && s.gen.end != nil {
		s.gen.end()
	}
	s.gen, s.queue, s.batch, s.restart, s.retry = nil, nil, nil, nil, time.Time{}
	s.tap.Abandon(errors.New("a new generation has not begun yet"))
	s.local.clear()
}

// begin begins a generation: its description, then a snapshot.
func (s *Shipper) begin(ctx context.Context) (time.Duration, error) {
	asking, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	now := s.cfg.Now().UTC()
	gen := &generation{id: stamp(now) + "-" + rand.Text()[:8], ended: now, known: true}
	err := os.Mkdir(s.cfg.Folder, 0o700) // somebody may have deleted it
	if err == nil || errors.Is(err, os.ErrExist) {
		err = s.there(asking)
	}
	if err == nil {
		err = s.sign(asking)
	}
	var after string
	if err == nil {
		after, err = s.alone(asking)
	}
	if err == nil {
		err = s.put(asking, generations+gen.id, func(ctx context.Context) (err error) {
			gen.sum, err = putHead(ctx, s.cfg.Place, generations+gen.id, head{
				Kind: kindGeneration, Store: s.created, Generation: gen.id, Began: now, Ended: now, Host: s.cfg.Host, Version: s.cfg.Version, Epoch: s.epoch, After: after,
			}, s.cfg.Folder)
			return err
		})
	}
	if err != nil {
		return s.failed(err), nil
	}
	gen.ctx, gen.end = context.WithCancel(context.Background())
	s.mu.Lock()
	s.gen = gen
	s.counts.Generations++
	s.recovered()
	s.mu.Unlock()
	s.cfg.Log.Info("replicating the store", "place", s.cfg.Place.String(), "generation", gen.id)
	if err := s.snapshot(ctx, gen, true); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(nil)
		return s.failedLocked(err), nil
	}
	return s.cfg.Every, nil
}

// keep writes changes into the spool as the next segment. They are nowhere else: if that fails, the tap is abandoned, so that neither this
// process nor the next goes on without them.
func (s *Shipper) keep(c sqlite.Changes) error {
	s.mu.Lock()
	gen := s.gen
	if len(c.Pages) == 0 {
		if len(s.queue) == 0 && !s.away {
			s.reached(c.Began)
		}
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	h := head{
		Kind: kindSegment, Store: s.created, Generation: gen.id, Index: gen.index + 1, Previous: gen.sum, PageSize: c.PageSize, Pages: len(c.Pages), Size: c.Size,
		Began: c.Began.UTC(), Ended: later(c.Ended.UTC(), gen.ended), Position: c.Position,
	}
	o, err := s.local.write(h, c.Pages)
	s.tap.Free(c)
	if err != nil {
		err = fmt.Errorf("keep changes until they are stored: %w", err)
		s.tap.Abandon(err)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gen.index, gen.sum, gen.ended = h.Index, o.sum, h.Ended
	s.queue = append(s.queue, segment{o, h})
	if waiting := s.waiting(); waiting > s.cfg.Spool {
		return fmt.Errorf("%d MiB of changes wait to be stored, more than replicate.spool_mb allows", waiting>>20)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// later keeps times of segments in order though clocks are set.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (s *Shipper) waiting() (n int64) {
	for _, x := range s.queue {
		n += x.size
	}
	return n
}

// reached notes, with mu held, that everything acknowledged before an instant is stored and can be restored.
func (s *Shipper) reached(t time.Time) {
	if s.gen != nil && !s.gen.snapshot.IsZero() && t.After(s.complete) {
		s.complete = t
	}
}

func (s *Shipper) first() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	return &s.queue[0]
}

// ship stores the segments that wait, in order.
func (s *Shipper) ship(ctx context.Context) (time.Duration, error) {
	for {
		next, gen := s.first(), s.current()
		if next == nil || gen == nil {
			return s.idle(ctx, gen)
		}
		asking, cancel := context.WithTimeout(ctx, answers)
		name := segmentName(next.Generation, next.Index)
		err := s.there(asking)
		if err == nil {
			err = s.confirm(asking, gen)
		}
		if err == nil {
			err = s.put(asking, name, func(ctx context.Context) error { return next.put(ctx, s.cfg.Place, name) })
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case errors.Is(err, blob.ErrExists), errors.Is(err, errMissing):
			s.again(gen, err)
			return s.cfg.Every, nil
		case errors.Is(err, os.ErrNotExist) && s.current() != gen:
			continue // it was dropped
		case err != nil:
			if bad := next.intact(); bad != nil {
				s.again(gen, bad)
			}
			return s.failed(err), nil
		}
		s.stored(gen, *next)
	}
}

// stored notes that a segment is stored.
func (s *Shipper) stored(gen *generation, x segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovered()
	s.counts.Segments++
	s.counts.Bytes += x.size
	if s.gen != gen || len(s.queue) == 0 || s.queue[0].Index != x.Index {
		return // it was dropped meanwhile
	}
	s.queue = s.queue[1:]
	s.reached(x.Began)
	s.local.stored(s.cfg.Place.String(), gen.snapshot, x)
	s.merging(gen, x)
}
