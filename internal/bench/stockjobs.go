package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/worker"
)

// The vocabulary of jobs.
var (
	verbs  = []string{"send", "build", "check", "collect", "refresh", "export", "archive", "reconcile"}
	nouns  = []string{"invoices", "reports", "thumbnails", "ledgers", "mailings", "snapshots", "quotes", "payouts", "feeds"}
	queues = []string{job.DefaultQueue, "mail", "billing", "reports", "slow"}
	tags   = [][]string{{"billing", "eu"}, {"reporting"}, nil, {"mail", "us"}, {"billing", "us"}, {"etl"}, nil, {"reporting", "eu"}, {"thumbnails"}, nil}
	kinds  = []string{"send-email", "resize"}
	errs   = []client.Error{
		{Type: "HTTP_ERROR", Message: "the target answered 503 after %d ms", HTTPStatus: 503},
		{Type: "HTTP_ERROR", Message: "the target answered 404 for customer %d", HTTPStatus: 404},
		{Type: "CONNECTION_REFUSED", Message: "dial tcp 10.1.2.3:%d: connection refused"},
		{Type: "DNS_RESOLUTION_FAILED", Message: "lookup billing-%d.internal: no such host"},
		{Type: "EXIT_CODE", Message: "the program ended with %d"},
		{Type: "HANDLER_ERROR", Message: "row %d of the ledger does not add up"},
		{Type: "HANDLER_ERROR", Message: "quota of tenant %d is used up"},
		{Type: "PANIC", Message: "index out of range [%d] with length 7"},
		{Type: "TIMEOUT", Message: "no answer within %d s"},
	}
)

// rare is a tag of very few jobs.
const rare = "rare"

func nameOf(i int) string {
	if i%50 == 3 {
		return "nightly report" // which many are called
	}
	return fmt.Sprintf("%s %s %06d", verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)], i)
}

// define returns the definition of the i-th job.
func (s *stock) define(i int) job.Definition {
	d := job.Definition{
		Name: nameOf(i), Priority: 1 + i%9, Queue: queues[i/3%len(queues)], Tags: tags[i/7%len(tags)], Payload: []byte(`{"customer": ` + strconv.Itoa(i) + `, "currency": "EUR", "dry": false}`),
		Retry:  job.RetryPolicy{MaxRetries: 1, Backoff: job.Fixed, InitialDelay: 10 * time.Millisecond, MaxDelay: time.Second},
		Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: job.DefaultTimeout},
	}
	if i%4 == 1 {
		d.Target = job.Target{Kind: job.Handler, Handler: kinds[i/4%len(kinds)], Timeout: job.DefaultTimeout}
		d.Description = "Runs for the department of " + nouns[i%len(nouns)] + "."
	}
	if i%10_007 == 1 {
		d.Tags = []string{rare}
	}
	if i%3 == 0 {
		d.Key = "job-" + strconv.Itoa(i)
	}
	switch {
	case isOneOff(i) && i/5 < s.waiting:
		d.Schedule, d.Queue = job.Schedule{Type: job.Immediate}, nobody
	case isOneOff(i) && i%2 == 0:
		d.Schedule = job.Schedule{Type: job.Immediate}
	case isOneOff(i):
		d.Schedule = job.Schedule{Type: job.OneTime}
	case i%3 == 1:
		d.Schedule = job.Schedule{Type: job.Cron, Cron: fmt.Sprintf("%d %d * * *", i%60, i/60%24)}
	case i%3 == 2 && i%7 == 0:
		d.Schedule = job.Schedule{Type: job.Cron, Cron: "0 2 * * *", Zone: "Europe/Berlin"} // a herd
	default:
		d.Schedule = job.Schedule{Type: job.Interval, Every: time.Duration(1+i%24) * time.Hour}
	}
	return d
}

// work starts the workers; stop returns once they have stopped.
func (s *stock) work() (stop func()) {
	r := s.rig
	door := api.NewDoor(r.Dispatch, delivery.New(r.Dispatch, slog.New(slog.DiscardHandler)), r.Clock)
	pool := worker.New(stockSource{door, s}, s, worker.Config{
		Host: "bench", Version: "bench", Queues: queues, Targets: []string{string(job.Simulate), string(job.Handler)}, Kinds: kinds, Slots: r.load.Slots,
	})
	return inBackground(pool.Run)
}

// Execute does nothing, and lets some executions fail: two in a hundred for good, half of them at the second attempt;
// one in a hundred once.
func (s *stock) Execute(ctx context.Context, a client.Attempt) client.Outcome {
	id, err := job.ParseExecutionID(a.ExecutionID)
	if err != nil {
		return client.Outcome{Status: client.Failed, Error: &client.Error{Type: "INTERNAL", Message: err.Error()}}
	}
	h := binary.BigEndian.Uint64(id[8:]) // chance
	mine, again := a.TenantID == "" || a.TenantID == string(s.tenants[0]), a.AttemptNumber > 1
	if h%503 == 0 || s.few(&s.logged) {
		for n := range 20 {
			worker.Log(ctx, worker.Stdout, "step "+strconv.Itoa(n)+" of 20: "+a.JobName)
		}
		s.keep(mine, &s.logged, a.ExecutionID)
	}
	_, paused := s.paused.Load(a.JobID)
	last := again || paused
	switch n := h % 1000; {
	case n < 10, n < 20 && last:
		if s.keep(mine, &s.ill, a.ExecutionID); last {
			s.second.Store(a.ExecutionID, true)
		}
		return failed(h, n >= 10)
	case n < 20, n < 30 && !last:
		return failed(h, true)
	case n < 30 && again:
		s.keep(mine, &s.twice, a.ExecutionID)
	default:
		s.keep(mine, &s.well, a.ExecutionID)
	}
	if h%5 > 0 {
		return client.Outcome{Status: client.Succeeded}
	}
	return client.Outcome{Status: client.Succeeded, Result: json.RawMessage(`{"rows": ` + strconv.FormatUint(h%100_000, 10) + `, "note": "` + strings.Repeat("x", int(h%80)) + `"}`)}
}

func failed(h uint64, retryable bool) client.Outcome {
	e := errs[h/1000%uint64(len(errs))]
	e.Message = fmt.Sprintf(e.Message, h/9000%10_000)
	return client.Outcome{Status: client.Failed, Error: &e, Retryable: retryable}
}

// few reports whether a sample should be small: rare things are rare in a small stock, too.
func (s *stock) few(in *sample) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return in.seen < 5
}

func (s *stock) keep(mine bool, in *sample, id string) {
	if mine {
		s.mu.Lock()
		defer s.mu.Unlock()
		in.add(func() string { return id })
	}
}

// stockSource is the server that the worker asks, and counts what has ended.
type stockSource struct {
	worker.Source
	stock *stock
}

// Report passes outcomes on.
func (s stockSource) Report(ctx context.Context, w client.Session, outcomes []client.Outcome) ([]client.Verdict, error) {
	vs, err := s.Source.Report(ctx, w, outcomes)
	n := int64(0)
	for i, v := range vs {
		if v.Verdict != client.Accepted {
			continue
		}
		o := &outcomes[i]
		_, last := s.stock.second.LoadAndDelete(v.ExecutionID)
		if last || o.Status == client.Succeeded || !o.Retryable {
			n++
		}
	}
	s.stock.ended.Add(n)
	return vs, err
}
