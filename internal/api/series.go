package api

import (
	"net/http"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

var seriesParams = []param{
	{"hours", "integer", "How far back, 1 to 24; default 24."},
	{"step", "integer", "Seconds per point: 60, 300, 900 or 3600."},
	{"scope", "string", "tenant; or installation (role system only): all tenants together."},
}

// stretch reads the time range and step of a series.
func stretch(r *http.Request, step string) (service.Stretch, error) {
	q, err := parseQuery(r, seriesParams)
	if err != nil {
		return service.Stretch{}, err
	}
	x := service.Stretch{Back: time.Duration(q.number("hours", 24, 1, 24)) * time.Hour}
	if text := q.values.Get("step"); text != "" {
		step = text
	}
	switch step {
	case "60", "300", "900", "3600":
		x.Step, _ = time.ParseDuration(step + "s")
	default:
		q.wrong("step", step, "60, 300, 900 or 3600")
	}
	switch scope := q.values.Get("scope"); scope {
	case "", "tenant":
	case "installation":
		x.Whole = true
	default:
		q.wrong("scope", scope, "tenant or installation")
	}
	return x, q.err()
}

func stepOf(x service.Stretch) int { return int(x.Step / time.Second) }

func (s viewAPI) series(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	x, err := stretch(r, "60")
	if err != nil {
		return err
	}
	got, err := s.service.Series(r.Context(), p, x)
	if err != nil {
		return err
	}
	out := client.Series{From: got.From, To: got.To, StepSeconds: stepOf(x), Points: make([]client.SeriesPoint, len(got.Points)), Total: wireTotal(&got.Total)}
	for i := range got.Points {
		out.Points[i] = client.SeriesPoint{At: got.Points[i].At, Counted: wireCounted(&got.Points[i])}
	}
	return reply(w, 200, out)
}

func wireCounted(m *engine.TenantMinute) client.Counted {
	return client.Counted{
		Started: m.Started, Succeeded: m.Succeeded, Failed: m.Failed, TimedOut: m.TimedOut, Cancelled: m.Cancelled, Dead: m.Dead, Retried: m.Retried, Skipped: m.Skipped,
		Fired: m.Fired(), Within1s: m.Within(time.Second), Within5s: m.Within(5 * time.Second),
		AverageWaitSeconds: average(m.Wait, m.Waited), MaxWaitSeconds: inSeconds(m.MaxWait), MaxDelaySeconds: inSeconds(m.MaxDelay),
	}
}

func wireTotal(m *engine.TenantMinute) client.SeriesTotal {
	out := client.SeriesTotal{Counted: wireCounted(m)}
	if n := m.Succeeded + m.Failed + m.TimedOut; n > 0 {
		out.SuccessRate = new(float64(m.Succeeded) / float64(n))
	}
	return out
}

func (s viewAPI) delaySeries(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	x, err := stretch(r, "300")
	if err != nil {
		return err
	}
	got, err := s.service.Series(r.Context(), p, x)
	if err != nil {
		return err
	}
	out := client.DelaySeries{From: got.From, To: got.To, StepSeconds: stepOf(x), Columns: []client.DelayColumn{}, Total: wireDelays(&got.Total)}
	for _, b := range engine.DelayBounds {
		out.BoundsSeconds = append(out.BoundsSeconds, b.Seconds())
	}
	for i := range got.Points {
		m := &got.Points[i]
		if n := m.Fired(); n > 0 {
			out.Columns = append(out.Columns, client.DelayColumn{
				At: m.At, Fired: n, Within1s: m.Within(time.Second), Within5s: m.Within(5 * time.Second), MaxSeconds: inSeconds(m.MaxDelay), Counts: m.Delays[:],
			})
		}
	}
	return reply(w, 200, out)
}

func wireDelays(m *engine.TenantMinute) client.DelayTotal {
	at := func(share float64) *float64 {
		d, ok := service.DelayAt(m, share)
		if !ok {
			return nil
		}
		return new(inSeconds(d))
	}
	return client.DelayTotal{
		Fired: m.Fired(), Within1s: m.Within(time.Second), Within5s: m.Within(5 * time.Second), MaxSeconds: inSeconds(m.MaxDelay),
		P50Seconds: at(0.5), P95Seconds: at(0.95), P99Seconds: at(0.99),
	}
}

func (s viewAPI) queueSeries(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	x, err := stretch(r, "300")
	if err != nil {
		return err
	}
	got, err := s.service.Depths(r.Context(), p, x)
	if err != nil {
		return err
	}
	out := client.QueueSeries{From: got.From, To: got.To, StepSeconds: stepOf(x), Queues: list0(got.Queues), Columns: make([]client.QueueColumn, len(got.Points))}
	oldest := func(d time.Duration) *float64 {
		if d == 0 {
			return nil
		}
		return new(inSeconds(d))
	}
	for i, m := range got.Points {
		c := client.QueueColumn{At: m.At, Queues: make([]client.QueueSample, len(m.Queues))}
		var longest time.Duration
		for k, q := range m.Queues {
			c.Queues[k] = client.QueueSample{Queue: q.Queue, Waiting: q.Waiting, Running: q.Running, OldestSeconds: oldest(q.Oldest)}
			c.Waiting, c.Running, longest = c.Waiting+q.Waiting, c.Running+q.Running, max(longest, q.Oldest)
		}
		c.OldestSeconds = oldest(longest)
		out.Columns[i] = c
	}
	return reply(w, 200, out)
}
