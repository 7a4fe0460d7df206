package bench

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/worker"
)

// Remote compares a worker over HTTP with one in the server's process.
type Remote struct {
	PerS      float64 `json:"per_s"`
	LocalPerS float64 `json:"local_per_s"`
	Share     float64 `json:"share"`
}

// remote processes jobs in this process, and then as many over HTTP on loopback.
func remote(ctx context.Context, r *Rig, o Options, rep *Report) error {
	if err := r.Insert(ctx, everybody, o.Jobs); err != nil {
		return err
	}
	var got Remote
	var err error
	if got.LocalPerS, err = workOff(ctx, r, o, "local", r.Work); err != nil {
		return err
	}
	if err := r.Insert(ctx, everybody, o.Jobs); err != nil {
		return err
	}
	address, stop, err := r.serve()
	if err != nil {
		return err
	}
	defer stop()
	got.PerS, err = workOff(ctx, r, o, "remote", func() func() {
		return r.workFrom(client.New([]string{"http://" + address}, "none"), handler{r.ledger, r.fires, r.runs, r.Clock})
	})
	if err != nil {
		return err
	}
	got.Share = round(got.PerS/got.LocalPerS, 2)
	rep.Remote = &got
	return nil
}

// overHTTP makes many callers create one job at a time over HTTP on loopback; then all jobs are processed, to be
// checked.
func overHTTP(ctx context.Context, r *Rig, o Options, rep *Report) error {
	address, stop, err := r.serve()
	if err != nil {
		return err
	}
	defer stop()
	c := client.New([]string{"http://" + address}, "none")
	rep.HTTPPerS, rep.HTTPMS, err = oneByOne(ctx, r, o, "http", func(ctx context.Context) error {
		made, err := c.CreateJob(ctx, client.JobRequest{
			Name: r.def.Name, Execution: client.Target{Target: string(r.def.Target.Kind), WorkKind: r.def.Target.WorkKind, Payload: r.def.Payload},
		})
		if err != nil {
			return err
		}
		id, err := job.ParseID(made.JobID)
		if err != nil {
			return err
		}
		e, err := job.ParseExecutionID(made.ExecutionID)
		if err != nil {
			return err
		}
		r.ledger.accept(everybody.Tenant, service.NewJob{Job: &job.Job{ID: id}, Execution: e})
		return nil
	})
	return err
}

// serve serves HTTP on loopback until stop is called, without authentication unless configured otherwise.
func (r *Rig) serve(otherwise ...func(*api.Config)) (address string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	cfg := api.Config{Service: r.Service, Dispatch: r.Dispatch, Delivery: delivery.New(r.Dispatch, quiet), Logger: quiet, Ready: r.store.Ping, Version: "bench"}
	for _, change := range otherwise {
		change(&cfg)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: api.New(cfg)}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			quiet.Error("serve", "error", err)
		}
	})
	return ln.Addr().String(), func() { _ = server.Close(); wg.Wait() }, nil
}

// workFrom starts workers of a source with an executor; stop returns once they have stopped.
func (r *Rig) workFrom(src worker.Source, e worker.Executor) (stop func()) {
	pool := worker.New(source{src, r.ledger, r.fires}, e, worker.Config{Host: "bench", Version: "bench", Targets: []string{string(job.Simulate)}, Slots: r.load.Slots})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { pool.Run(ctx) })
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}
