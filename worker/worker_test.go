package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// fakeServer hands out attempts and remembers what it is told.
type fakeServer struct {
	logs        func(client.LogRequest) (client.LogAnswer, error) // takes lines of logs; nil: all
	mu          sync.Mutex
	waiting     []client.Attempt
	held        map[string]client.Attempt
	outcomes    map[string]client.Outcome
	released    []string
	claims      []int // how many were asked for, each time
	reports     []int
	registered  int
	left        int
	beats       int
	beatErr     error
	claimErr    error
	reportErrs  int // so many reports fail
	refuse      func([]client.Outcome) error
	releaseErrs int
	orders      client.Orders
	more        chan struct{}
	nudge       chan struct{}
	draining    bool
	progress    []client.Progress // as told in beats
	beatTimes   []time.Time
	named       []client.Held // by the last beat
	late        bool          // attempts come without the values of their secrets
	starts      []client.Held
	starting    func(context.Context, client.Held) (client.Attempt, error)
}

func newServer(n int) *fakeServer {
	s := &fakeServer{held: map[string]client.Attempt{}, outcomes: map[string]client.Outcome{}, more: make(chan struct{}, 1)}
	s.add(n, 300)
	return s
}

func (s *fakeServer) add(n int, timeout int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		id := fmt.Sprint(len(s.waiting) + len(s.held) + len(s.outcomes))
		s.waiting = append(s.waiting, client.Attempt{ExecutionID: id, FencingToken: 7, AttemptNumber: 1, Execution: client.Target{TimeoutSeconds: &timeout}, LateSecrets: s.late})
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *fakeServer) Register(context.Context, client.Registration) (client.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registered++
	s.claimErr = nil
	return client.Session{WorkerID: fmt.Sprint(s.registered), LeaseSeconds: 30, BeatSeconds: 10}, nil
}

func (s *fakeServer) Claim(ctx context.Context, _ client.Session, limit int) ([]client.Attempt, error) {
	for {
		s.mu.Lock()
		if err := s.claimErr; err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if n := min(limit, len(s.waiting)); n > 0 {
			as := slices.Clone(s.waiting[:n])
			s.waiting = s.waiting[n:]
			for _, a := range as {
				s.held[a.ExecutionID] = a
			}
			s.claims = append(s.claims, limit)
			s.mu.Unlock()
			return as, nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil
		case <-s.more:
		}
	}
}

func (s *fakeServer) Start(ctx context.Context, _ client.Session, h client.Held) (client.Attempt, error) {
	s.mu.Lock()
	s.starts = append(s.starts, h)
	a, start := s.held[h.ExecutionID], s.starting
	s.mu.Unlock()
	if start != nil {
		return start(ctx, h)
	}
	a.LateSecrets, a.Payload = false, json.RawMessage(`"the value"`)
	return a, nil
}

func (s *fakeServer) Nudged() <-chan struct{} { return s.nudge }

func (s *fakeServer) Beat(_ context.Context, _ client.Session, b client.Beat) (client.Orders, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	s.named = b.Executions
	s.draining = s.draining || b.Draining
	s.beatTimes = append(s.beatTimes, time.Now())
	for _, h := range b.Executions {
		if h.Progress != nil {
			s.progress = append(s.progress, *h.Progress)
		}
	}
	return s.orders, s.beatErr
}

func (s *fakeServer) Report(_ context.Context, _ client.Session, os []client.Outcome) ([]client.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reportErrs > 0 {
		s.reportErrs--
		return nil, errors.New("the server is away")
	}
	if s.refuse != nil {
		if err := s.refuse(os); err != nil {
			return nil, err
		}
	}
	s.reports = append(s.reports, len(os))
	vs := make([]client.Verdict, len(os))
	for i, o := range os {
		_, ok := s.held[o.ExecutionID]
		delete(s.held, o.ExecutionID)
		s.outcomes[o.ExecutionID] = o
		vs[i] = client.Verdict{ExecutionID: o.ExecutionID, Verdict: client.Accepted}
		if !ok || o.FencingToken != 7 {
			vs[i].Verdict = client.Refused
		}
	}
	return vs, nil
}

func (s *fakeServer) Release(_ context.Context, _ client.Session, hs []client.Held) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.releaseErrs > 0 {
		s.releaseErrs--
		return errors.New("the server is away")
	}
	for _, h := range hs {
		delete(s.held, h.ExecutionID)
		s.released = append(s.released, h.ExecutionID)
	}
	return nil
}

func (s *fakeServer) Logs(_ context.Context, _ client.Session, r client.LogRequest) (client.LogAnswer, error) {
	s.mu.Lock()
	write := s.logs
	s.mu.Unlock()
	if write == nil {
		return client.LogAnswer{Lines: *r.Offset + len(r.Lines)}, nil
	}
	return write(r)
}

func (s *fakeServer) Leave(context.Context, client.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left++
	return nil
}

type executorFunc func(context.Context, client.Attempt) client.Outcome

func (f executorFunc) Execute(ctx context.Context, a client.Attempt) client.Outcome { return f(ctx, a) }

// takes works for a while, or until it is stopped.
func takes(d time.Duration) executorFunc {
	return func(ctx context.Context, _ client.Attempt) client.Outcome {
		select {
		case <-time.After(d):
			return client.Outcome{Status: client.Succeeded}
		case <-ctx.Done():
			return client.Outcome{Status: client.Failed, Error: &client.Error{Type: "INTERNAL", Message: context.Cause(ctx).Error()}}
		}
	}
}

// start runs a pool in a bubble of fake time; the function it returns stops it and waits.
func start(s *fakeServer, e Executor, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { New(s, e, cfg).Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

func TestRunsAndReportsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(100)
		stop := start(s, takes(time.Second), Config{Slots: 4, MaxSlots: 4})
		<-time.After(time.Minute)
		stop()
		if len(s.outcomes) != 100 || len(s.held) != 0 || s.left != 1 || s.registered != 1 {
			t.Errorf("%d ended, %d held, left %d times", len(s.outcomes), len(s.held), s.left)
		}
		if got := slices.Max(s.claims); got > 4 {
			t.Errorf("long attempts were claimed %d at a time by 4 slots", got)
		}
	})
}

func TestShortAttemptsComeInLargeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(50_000)
		stop := start(s, takes(10*time.Microsecond), Config{Slots: 8, MaxSlots: 8})
		<-time.After(10 * time.Second)
		stop()
		if len(s.outcomes) != 50_000 {
			t.Errorf("%d ended", len(s.outcomes))
		}
		if len(s.claims) > 300 {
			t.Errorf("%d claims for 50000 attempts", len(s.claims))
		}
	})
}

func TestScalesWithTheDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(200)
		var mu sync.Mutex
		now, most := 0, 0
		stop := start(s, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() { mu.Lock(); now--; mu.Unlock() }()
			return takes(3*time.Second)(ctx, a)
		}), Config{Slots: 2, MaxSlots: 8})
		seen := func() int {
			mu.Lock()
			defer mu.Unlock()
			return most
		}
		<-time.After(time.Second / 2)
		if got := seen(); got != 2 {
			t.Errorf("%d ran at once at first, want 2", got)
		}
		<-time.After(5 * time.Minute)
		if got := seen(); got != 8 {
			t.Errorf("%d ran at once at the most, want 8", got)
		}
		s.add(2, 300)
		<-time.After(time.Minute)
		stop()
		if len(s.outcomes) != 202 {
			t.Errorf("%d ended", len(s.outcomes))
		}
	})
}

func TestGrowsWhileAllSlotsAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(20)
		var busy atomic.Int64
		stop := start(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			busy.Add(1)
			<-ctx.Done()
			return client.Outcome{Status: client.Failed}
		}), Config{Slots: 2, MaxSlots: 8, Drain: time.Second})
		<-time.After(3500 * time.Millisecond)
		if got := busy.Load(); got != 8 {
			t.Errorf("%d run after three looks at the slots, want 8", got)
		}
		stop()
	})
}

// A process that stood still past its lease starts nothing it had claimed before.
func TestNothingStartsPastTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		ran := false
		h := newShift(New(s, executorFunc(func(context.Context, client.Attempt) client.Outcome {
			ran = true
			return client.Outcome{}
		}), Config{}), client.Session{LeaseSeconds: 30, BeatSeconds: 10})
		<-time.After(31 * time.Second)
		h.execute(newRunning(t.Context(), client.Attempt{ExecutionID: "1"}))
		if ran || !h.ended() {
			t.Errorf("it was started: %v; the session has ended: %v", ran, h.ended())
		}
	})
}

// What succeeded although it was told to stop has succeeded.
func TestASuccessBeatsTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		stop := start(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			<-ctx.Done()
			return client.Outcome{Status: client.Succeeded}
		}), Config{Drain: time.Second})
		<-time.After(time.Second)
		stop()
		if s.outcomes["0"].Status != client.Succeeded {
			t.Errorf("outcomes: %v", s.outcomes)
		}
	})
}

func TestStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		stop := start(s, takes(10*time.Second), Config{Slots: 2, MaxSlots: 2, Drain: 30 * time.Second})
		s.add(2, 300)
		<-time.After(time.Second)
		s.add(5, 300)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 9*time.Second || !s.draining {
			t.Errorf("it took %v; the server was told: %v", took, s.draining)
		}
		if len(s.outcomes) != 2 || len(s.waiting) != 5 || s.left != 1 {
			t.Errorf("%d ended, %d wait, left %d times", len(s.outcomes), len(s.waiting), s.left)
		}
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		stop := start(s, takes(time.Hour), Config{Drain: 30 * time.Second})
		<-time.After(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
		if len(s.outcomes) != 0 || s.left != 1 || s.beats < 2 {
			t.Errorf("%d ended, left %d times, %d beats", len(s.outcomes), s.left, s.beats)
		}
	})
}

func TestAnEndedSessionStopsWhatRan(t *testing.T) {
	for name, end := range map[string]func(*fakeServer){
		"told by the beat":  func(s *fakeServer) { s.beatErr = ErrSession },
		"told by the claim": func(s *fakeServer) { s.claimErr = ErrSession; s.more <- struct{}{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(1)
				causes := make(chan error, 1)
				stop := start(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return client.Outcome{Status: client.Succeeded}
				}), Config{Slots: 2})
				<-time.After(time.Second)
				s.mu.Lock()
				end(s)
				s.mu.Unlock()
				if cause := <-causes; !errors.Is(cause, ErrLeaseLost) {
					t.Errorf("stopped because %v", cause)
				}
				s.mu.Lock()
				s.beatErr = nil
				s.mu.Unlock()
				<-time.After(time.Second)
				s.mu.Lock()
				if s.registered != 2 || len(s.outcomes) != 0 {
					t.Errorf("registered %d times, %d results", s.registered, len(s.outcomes))
				}
				s.mu.Unlock()
				stop()
			})
		})
	}
}

func TestUnansweredBeatsEndTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.beatErr = errors.New("no route")
		stopped := make(chan time.Time, 1)
		began := time.Now()
		stop := start(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			<-ctx.Done()
			stopped <- time.Now()
			return client.Outcome{}
		}), Config{})
		at := <-stopped
		if after := at.Sub(began); after > 30*time.Second {
			t.Errorf("it ran on for %v, longer than its lease", after)
		}
		s.mu.Lock()
		s.beatErr = nil
		s.mu.Unlock()
		stop()
	})
}

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(3)
		var mu sync.Mutex
		causes := map[string]error{}
		stop := start(s, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			o := takes(25*time.Second)(ctx, a)
			mu.Lock()
			causes[a.ExecutionID] = context.Cause(ctx)
			mu.Unlock()
			return o
		}), Config{Slots: 3})
		<-time.After(time.Second)
		s.mu.Lock()
		s.orders = client.Orders{Cancel: []string{"0"}, Lost: []string{"1"}}
		s.mu.Unlock()
		<-time.After(time.Minute)
		stop()
		if !errors.Is(causes["0"], ErrCancelled) || !errors.Is(causes["1"], ErrLeaseLost) || causes["2"] != nil {
			t.Errorf("causes: %v", causes)
		}
		if _, ok := s.outcomes["1"]; ok || len(s.outcomes) != 2 {
			t.Errorf("reported: %v", s.outcomes)
		}
	})
}

func TestANudgeBringsOrdersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.nudge = make(chan struct{}, 1)
		s.orders = client.Orders{Cancel: []string{"0"}}
		stopped := make(chan time.Time, 1)
		stop := start(s, executorFunc(func(ctx context.Context, _ client.Attempt) client.Outcome {
			<-ctx.Done()
			stopped <- time.Now()
			return client.Outcome{Status: client.Cancelled}
		}), Config{})
		<-time.After(time.Second)
		asked := time.Now()
		s.nudge <- struct{}{}
		if at := <-stopped; !at.Equal(asked) {
			t.Errorf("it was stopped %v later", at.Sub(asked))
		}
		stop()
	})
}

func TestTimeoutAndPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		s.add(2, 5)
		stop := start(s, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			if a.ExecutionID == "1" {
				panic("oops")
			}
			began := time.Now()
			<-ctx.Done()
			return client.Outcome{Status: client.Failed, Error: &client.Error{Type: "TIMEOUT", Message: time.Since(began).String()}}
		}), Config{Slots: 2})
		<-time.After(time.Minute)
		stop()
		if e := s.outcomes["0"].Error; e == nil || e.Message != "5s" {
			t.Errorf("timeout: %+v", e)
		}
		if o := s.outcomes["1"]; o.Status != client.Failed || o.Error == nil || o.Error.Type != "PANIC" || o.Error.Message != "oops" || !o.Retryable {
			t.Errorf("panic: %+v", o)
		}
	})
}

func TestReportsUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(20)
		s.reportErrs = 5
		stop := start(s, takes(time.Millisecond), Config{Slots: 4})
		<-time.After(time.Minute)
		stop()
		if len(s.outcomes) != 20 {
			t.Errorf("%d ended", len(s.outcomes))
		}
	})
}

// What has ended is named by the beats until the server has answered for it: it would be given to another otherwise.
func TestBeatsNameWhatIsNotYetReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(5)
		s.reportErrs = 15 // of two seconds each, most of them
		stop := start(s, takes(time.Millisecond), Config{Slots: 5})
		defer stop()
		<-time.After(11 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.named) != 5 || len(s.outcomes) != 0 {
			t.Errorf("%d are named, %d reported", len(s.named), len(s.outcomes))
		}
		s.mu.Unlock()
		<-time.After(30 * time.Second)
		s.mu.Lock()
		if len(s.named) != 0 || len(s.outcomes) != 5 {
			t.Errorf("later %d are named, %d reported", len(s.named), len(s.outcomes))
		}
	})
}

// What was claimed ahead and is then cancelled never starts.
func TestACancelReachesWhatWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(0)
		s.nudge = make(chan struct{}, 1)
		h := newShift(New(s, takes(time.Hour), Config{Slots: 1, Drain: time.Second}), client.Session{LeaseSeconds: 30, BeatSeconds: 10})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { h.run(ctx) })
		h.desk.add([]client.Attempt{{ExecutionID: "runs", FencingToken: 7}, {ExecutionID: "waits", FencingToken: 7}, {ExecutionID: "lost", FencingToken: 7}})
		s.mu.Lock()
		s.orders = client.Orders{Cancel: []string{"waits"}, Lost: []string{"lost"}}
		s.mu.Unlock()
		s.nudge <- struct{}{}
		<-time.After(time.Millisecond)
		s.mu.Lock()
		if !slices.Equal(s.released, []string{"waits"}) {
			t.Errorf("handed back: %v", s.released)
		}
		s.mu.Unlock()
		if got, _ := h.desk.held(); len(got) != 1 || got[0].ExecutionID != "runs" {
			t.Errorf("held: %+v", got)
		}
		cancel()
		wg.Wait()
	})
}

func TestWhatWaitsTooLongIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(100)
		s.releaseErrs = 3 // it is tried until it is answered
		n := 0
		stop := start(s, executorFunc(func(ctx context.Context, a client.Attempt) client.Outcome {
			if n++; n <= 50 {
				return client.Outcome{Status: client.Succeeded} // quick enough to claim far ahead
			}
			return takes(time.Hour)(ctx, a)
		}), Config{Slots: 1, Drain: time.Second})
		<-time.After(10 * time.Second)
		s.mu.Lock()
		if len(s.released) == 0 {
			t.Error("nothing was handed back")
		}
		s.mu.Unlock()
		stop()
	})
}
