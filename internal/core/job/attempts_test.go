package job

import (
	"testing"
	"time"
)

func TestAttemptsOfAnExecution(t *testing.T) {
	past := []PastAttempt{
		{Token: 3, Number: 1, StartedAt: at, EndedAt: at.Add(time.Second), Error: Error{Type: HTTPError}},
		{Token: 5, Number: 2, StartedAt: at.Add(2 * time.Second), EndedAt: at.Add(4 * time.Second), Error: Error{Type: LeaseLost}},
	}
	base := Execution{LeasedAt: at.Add(5 * time.Second), StartedAt: at, FinishedAt: at.Add(8 * time.Second), Attempt: 3, Token: 9}
	why := &Error{Type: CancelledError}
	for name, c := range map[string]struct {
		change func(*Execution)
		kept   []Event
		want   AttemptStatus // of the last; "": past tells of all
	}{
		"succeeded":   {change: func(e *Execution) { e.Status = Succeeded }, want: AttemptSucceeded},
		"cancelled":   {change: func(e *Execution) { e.Status, e.Error = Cancelled, why }, want: AttemptCancelled},
		"skipped":     {change: func(e *Execution) { e.Status, e.Error = Skipped, why }, want: AttemptSkipped},
		"timed out":   {change: func(e *Execution) { e.Status = TimedOut }, want: AttemptTimedOut},
		"expired":     {change: func(e *Execution) { e.Status = Expired }, want: AttemptFailed},
		"running":     {change: func(e *Execution) { e.Status, e.FinishedAt = Running, time.Time{} }, want: AttemptRunning},
		"stopping":    {change: func(e *Execution) { e.Status, e.FinishedAt = Cancelling, time.Time{} }, want: AttemptRunning},
		"parked":      {change: func(e *Execution) { e.Status, e.FinishedAt = Running, time.Time{} }, kept: []Event{{Kind: EventParked, Token: 9}}, want: AttemptParked},
		"unparked":    {change: func(e *Execution) { e.Status, e.FinishedAt = Running, time.Time{} }, kept: []Event{{Kind: EventParked, Token: 5}}, want: AttemptRunning},
		"waiting":     {change: func(e *Execution) { e.Status, e.Token, e.Attempt = Retrying, 5, 2 }},
		"told":        {change: func(e *Execution) { e.Status, e.Token, e.Attempt = Failed, 5, 2 }},
		"handed back": {change: func(e *Execution) { e.Status, e.Attempt = Cancelled, 2 }},
		"not started": {change: func(e *Execution) { e.Status, e.LeasedAt = Cancelled, time.Time{} }},
	} {
		e := base
		c.change(&e)
		got := e.Attempts(past, c.kept)
		if len(got) < 2 || got[0].Status != AttemptFailed || got[1].Status != AttemptLost || got[1].Duration(at) != 2*time.Second {
			t.Fatalf("%s: %+v", name, got)
		}
		if c.want == "" {
			if len(got) != 2 {
				t.Errorf("%s: one too many: %+v", name, got[2])
			}
			continue
		}
		if len(got) != 3 || got[2].Status != c.want || got[2].Number != 3 || got[2].Error != e.Error || got[2].Duration(at.Add(8*time.Second)) != 3*time.Second {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
