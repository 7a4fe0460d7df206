package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// EventKind is the kind of an event of an execution.
type EventKind string

// The kinds of events. Stores record the first group as it happens. The second is derived from the execution and its
// attempts, so that an execution that just runs and succeeds writes only its own row.
const (
	EventReleased  EventKind = "released"         // its worker, or a server for it, handed it back
	EventSnoozed   EventKind = "snoozed"          // its worker asked for it again later
	EventParked    EventKind = "parked"           // its target took it over, and will complete it
	EventRefused   EventKind = "result_refused"   // a result came under a stale token
	EventAsked     EventKind = "cancel_requested" // someone asked it to stop while it was running
	EventForced    EventKind = "forced"           // it did not stop when asked, and was ended
	EventRerun     EventKind = "rerun"            // it was run again, as a new execution
	EventDiscarded EventKind = "discarded"        // it was taken out of the dead letters

	EventCreated  EventKind = "created"
	EventStarted  EventKind = "started"
	EventFailed   EventKind = "attempt_failed"
	EventLost     EventKind = "attempt_lost"
	EventFinished EventKind = "finished"
)

// MaxRefused is the approximate number of refused results kept per execution: a worker can make up any number of
// tokens.
const MaxRefused = 20

// MaxSnoozed is the approximate number of snoozes kept per execution, the last ones: a host may be down for days.
const MaxSnoozed = 100

// Event is something that happened to an execution.
type Event struct {
	At      time.Time
	Kind    EventKind
	Attempt int // 0: none in particular
	Token   Token
	Worker  WorkerID
	Note    string
}

// Timeline returns the events of an execution, oldest first, from its row, its attempts and its records.
func Timeline(e Execution, past []PastAttempt, kept []Event) []Event {
	all := append([]Event{{At: e.ID.At(), Kind: EventCreated, Note: "by " + e.Trigger.String()}}, kept...)
	for i := range all {
		if k := &all[i]; k.Kind == EventReleased && k.Note == "" { // its start was not recorded
			k.Note = fmt.Sprintf("attempt %d was handed back", k.Attempt)
		}
	}
	for _, a := range past {
		kind := EventFailed
		if a.Error.Type == LeaseLost {
			kind = EventLost
		}
		all = append(all,
			Event{At: a.StartedAt, Kind: EventStarted, Attempt: a.Number, Token: a.Token, Worker: a.Worker},
			Event{At: a.EndedAt, Kind: kind, Attempt: a.Number, Token: a.Token, Worker: a.Worker, Note: a.Error.String()})
	}
	if e.newest(past) {
		all = append(all, Event{At: e.LeasedAt, Kind: EventStarted, Attempt: e.Attempt, Token: e.Token, Worker: e.Worker})
	}
	if e.Status.Final() {
		note := strings.ToLower(e.Status.String())
		if e.Error != nil {
			note += ": " + e.Error.String()
		}
		all = append(all, Event{At: e.FinishedAt, Kind: EventFinished, Attempt: e.Attempt, Token: e.Token, Worker: e.Worker, Note: note})
	}
	slices.SortStableFunc(all, func(a, b Event) int {
		return cmp.Or(a.At.Truncate(time.Millisecond).Compare(b.At.Truncate(time.Millisecond)), cmp.Compare(order(a.Kind), order(b.Kind)), a.At.Compare(b.At))
	})
	return all
}

// order ranks events of one instant: an execution is created before all else, and finished after it.
func order(k EventKind) int {
	switch k {
	case EventCreated:
		return 0
	case EventStarted:
		return 1
	case EventFinished:
		return 3
	}
	return 2
}

func (e Error) String() string {
	if e.Message == "" {
		return string(e.Type)
	}
	return fmt.Sprintf("%s: %s", e.Type, e.Message)
}

// Report sums up an execution.
type Report struct {
	Execution Execution
	Delay     time.Duration // from when it could first fire until it was fired
	Wait      time.Duration // from when it was first due until its first start, or until now
	Run       time.Duration // in attempts
	Between   time.Duration // between attempts
	Total     time.Duration // from its first start to its end, or until now
	End       time.Time     // when it ended, or now
	Attempts  []Tried       // all, earliest first
}

// Reported sums up an execution as of an instant.
func Reported(e Execution, past []PastAttempt, kept []Event, now time.Time) Report {
	r := Report{Execution: e, Delay: e.TriggerDelay(), Attempts: e.Attempts(past, kept)}
	end := now
	if !e.FinishedAt.IsZero() {
		end = e.FinishedAt
	}
	r.End = end
	due := e.ScheduledAt
	if made := e.ID.At(); made.After(due) {
		due = made
	}
	if e.StartedAt.IsZero() {
		r.Wait = max(0, end.Sub(due))
		return r
	}
	r.Wait, r.Total = max(0, e.StartedAt.Sub(due)), max(0, end.Sub(e.StartedAt))
	for _, a := range r.Attempts {
		r.Run += a.Duration(end)
	}
	r.Run = min(r.Run, r.Total)
	r.Between = r.Total - r.Run
	return r
}
