package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/worker"
)

// Logged measures how fast the log of one job is stored.
type Logged struct {
	Lines int     `json:"lines"`
	PerS  float64 `json:"per_s"`
}

const (
	logLines = 50_000 // lines one job writes at most, below the limit of an attempt
	logWidth = 100    // bytes of each
)

// logs makes one job write lines as fast as it can, and checks that each is stored once, in order.
func logs(ctx context.Context, r *Rig, o Options, rep *Report) error {
	id, err := r.Create(ctx, everybody)
	if err != nil {
		return err
	}
	lines := min(logLines, o.Jobs)
	e := &loud{handler: handler{r.ledger, r.fires, r.runs, r.Clock}, lines: lines}
	defer watch(o, "logs", lines, func() int { return int(e.wrote.Load()) })()
	door := api.NewDoor(r.Dispatch, delivery.New(r.Dispatch, slog.New(slog.DiscardHandler)), r.Clock)
	defer r.workFrom(door, e)()
	began := time.Now()
	if _, err := r.Wait(ctx); err != nil {
		return err
	}
	rep.Logs = &Logged{Lines: lines, PerS: perSecond(lines, began)}
	address, stop, err := r.serve()
	if err != nil {
		return err
	}
	defer stop()
	n := 0
	_, err = client.New([]string{"http://" + address}, "none").FollowLog(ctx, id.String(), client.LogOptions{}, func(l client.LoggedLine) error {
		if l.Line != n || l.Text != loudLine(n) {
			return fmt.Errorf("line %d of the log is line %d, %q", n, l.Line, l.Text)
		}
		n++
		return nil
	})
	if err == nil && n != lines {
		err = fmt.Errorf("%d lines of %d were kept", n, lines)
	}
	return err
}

// loud writes a log.
type loud struct {
	handler
	lines int
	wrote atomic.Int64
}

func (l *loud) Execute(ctx context.Context, a client.Attempt) client.Outcome {
	for i := range l.lines {
		worker.Log(ctx, worker.Stdout, loudLine(i))
		l.wrote.Add(1)
	}
	return l.handler.Execute(ctx, a)
}

func loudLine(i int) string {
	s := fmt.Sprintf("line %d ", i)
	return s + strings.Repeat("x", logWidth-len(s))
}
