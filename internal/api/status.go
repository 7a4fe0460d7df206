package api

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var statusParams = []param{{"minutes", "integer", "Include what happened in each of the last minutes: how many, 0 to 1440; default 0."}}

const mostMinutes = 24 * 60

// queueStatus returns the state of the whole installation.
func (s viewAPI) queueStatus(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, statusParams)
	if err != nil {
		return err
	}
	back := 0
	if text := q.values.Get("minutes"); text != "" {
		if back, err = strconv.Atoi(text); err != nil || back < 0 || back > mostMinutes {
			q.wrong("minutes", text, "a whole number from 0 to 1440")
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	out, err := s.status(r.Context(), p, time.Duration(back)*time.Minute)
	if err != nil {
		return err
	}
	return reply(w, 200, out)
}

// status returns the state of the whole installation, with the minutes of a period.
func (s viewAPI) status(ctx context.Context, p tenant.Principal, back time.Duration) (client.QueueStatus, error) {
	st, err := s.service.QueueStatus(ctx, p, back)
	if err != nil {
		return client.QueueStatus{}, err
	}
	loads, all, err := s.cfg.Dispatch.Loads(ctx)
	if err != nil {
		return client.QueueStatus{}, err
	}
	out := client.QueueStatus{
		Pending: all.Waiting + all.Paused, Paused: all.Paused, InProgress: all.Running, Completed24h: st.Day.Completed, Failed24h: st.Day.Failed, Retried24h: st.Day.Again,
		ActiveWorkers: st.Workers, DrainingWorkers: st.Draining, Slots: st.Slots,
		AverageWaitSeconds: average(st.Day.Wait, st.Day.Waited), AverageWaitSeconds5m: average(st.Lately.Wait, st.Lately.Waited), MaxWaitSeconds: inSeconds(st.Day.MaxWait),
		AverageTriggerDelay: average(st.Day.Delay, st.Day.Fired), OldestPendingSeconds: age(all.Oldest, st.Now),
		DeadLetters: st.DeadLetters.Count, DeadLettersIsEstimate: st.DeadLetters.Estimate, OverdueJobs: st.Overdue.Count, OverdueJobsIsMinimum: st.Overdue.Estimate,
		Queues: make([]client.QueueDepth, len(loads)),
	}
	for i, l := range loads {
		out.Queues[i] = client.QueueDepth{Queue: l.Queue, Pending: l.Waiting + l.Paused, Paused: l.Paused, InProgress: l.Running, Slots: l.Slots, OldestPendingSeconds: age(l.Oldest, st.Now)}
	}
	for _, m := range st.Minutes {
		out.Minutes = append(out.Minutes, wireMinute(m))
	}
	return out, nil
}

func wireMinute(m engine.Minute) client.QueueMinute {
	return client.QueueMinute{
		At: m.At, Started: m.Started, Completed: m.Completed, Failed: m.Failed, Retried: m.Again,
		AverageWaitSeconds: average(m.Wait, m.Waited), MaxWaitSeconds: inSeconds(m.MaxWait),
		AverageTriggerDelay: average(m.Delay, m.Fired), MaxTriggerDelay: inSeconds(m.MaxDelay),
	}
}

// average returns a sum divided by a count, in seconds.
func average(sum time.Duration, n int64) float64 {
	if n == 0 {
		return 0
	}
	return inSeconds(sum / time.Duration(n))
}

// inSeconds returns a duration in seconds, with millisecond precision.
func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

func age(of, now time.Time) *float64 {
	if of.IsZero() {
		return nil
	}
	return new(inSeconds(max(0, now.Sub(of))))
}
