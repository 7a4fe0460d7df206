// Package explain explains why an execution waits, what it is doing, or how it ended: one sentence for people, and
// its facts for programs.
//
// Whoever asks hands in what is known: the execution with its attempts and events, its job and, of one that is due
// and waits, the workers, the limits over it and how far they are used. The first thing that keeps it from starting
// is the answer, in the order in which it would have to give way. An instant at which it will start is named only
// where it follows from that; what cannot be known stays unknown.
//
// It never asks for anything itself, and decides nothing: what it says has no effect on what happens.
package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
)

// Code is the reason as one word.
type Code string

// The reasons why an execution waits, what it is doing, or how it ended.
const (
	NotDue      Code = "NOT_DUE"
	Paused      Code = "JOB_PAUSED"
	Parents     Code = "WAITING_FOR_PARENTS"
	QueuePaused Code = "QUEUE_PAUSED"
	Overlap     Code = "OVERLAP"
	NoWorkers   Code = "NO_WORKERS"
	NoMatch     Code = "NO_MATCHING_WORKER"
	Concurrency Code = "CONCURRENCY_LIMIT"
	RateLimit   Code = "RATE_LIMIT"
	Busy        Code = "ALL_SLOTS_BUSY"
	Ready       Code = "READY"
	Backoff     Code = "RETRY_BACKOFF"
	Breaker     Code = "CIRCUIT_OPEN"
	Snoozed     Code = "SNOOZED"
	Running     Code = "RUNNING"
	Async       Code = "AWAITING_COMPLETION"
	Cancelling  Code = "CANCELLING"
	Succeeded   Code = "SUCCEEDED"
	Exhausted   Code = "ATTEMPTS_EXHAUSTED"
	ForGood     Code = "NOT_RETRYABLE"
	Poison      Code = "POISON"
	Stalled     Code = "STALLED"
	TimedOut    Code = "TIMED_OUT"
	Cancelled   Code = "CANCELLED"
	Skipped     Code = "SKIPPED"
	Expired     Code = "EXPIRED"
)

// Situation holds what is known about an execution.
type Situation struct {
	Execution job.Execution
	Attempts  []job.PastAttempt
	Events    []job.Event // as stores keep them
	Job       job.Job     // zero: it is gone
	Now       time.Time
	Run       *Run  // of a workflow; nil: it is none, or has not begun
	Node      *Node // nil: it is not a node of a workflow

	// Of one that waits, and whose job depends on others.
	Condition workflow.Condition
	Missing   []Parent // those that have not ended as the condition asks

	// Of one that is due and waits, see Waits.
	Workers []job.Worker // that may serve the tenant
	Pause   job.Pause    // of its queue
	Limits  []Limit      // the limits that apply to it, widest first
	Ahead   int          // how many of its tenant and class start before it
	More    bool         // at least
	Average time.Duration
}

// Parent is a job that another depends on.
type Parent struct{ Key, Name string }

// Limit is a limit over an execution, and how far it is used.
type Limit struct {
	Scope   string // tenant, queue, job or key
	Queue   string
	Key     string // the expression
	Max     int    // at once; 0: any number
	Running int
	Held    []Held // the parts of it that other servers hold, if that leaves none for the server that would start the execution
	Rate    job.Rate
	Wait    time.Duration // until the rate lets one more start
}

// Held is a server's share of a concurrency limit.
type Held struct {
	Server string
	Shares int
}

// Why explains why an execution waits, what it is doing, or how it ended.
type Why struct {
	Code  Code
	Text  string    // one sentence
	Since time.Time // zero: not known
	Start time.Time // when it is likely to start; zero: unknown, or never
	Facts Facts
}

// Facts holds the facts behind the sentence.
type Facts struct {
	Until       time.Time // when the obstacle ends, if that is known
	Attempt     int
	MaxAttempts int
	Error       *job.Error
	ExitCode    *int
	Reason      string // of a pause, a cancellation or a skip
	By          string // who paused its queue
	Worker      job.WorkerID
	Progress    *job.Progress
	Needs       *job.Needs
	Parents     []string // the keys, or else the names, of the jobs that it waits for
	Lacks       []string // what no worker has, of what it needs
	Workers     int      // that live
	Matching    int      // of those, that could run it
	Slots       int      // of those
	Busy        int      // slots
	Limit       *Limit
	Ahead       *int
	More        bool
	Run         job.ExecutionID // the run that it is, or that it is a node of; zero: none
	Node        string
	Item        *int // of the node's map
	Nodes       []NodeWhy
}

// Waits reports whether an execution is due and waiting, so that workers and limits may be why.
func Waits(e job.Execution, now time.Time) bool {
	return (e.Status == job.Pending || e.Status == job.Retrying) && !e.DueAt.After(now)
}

// Of explains a situation.
func Of(s Situation) Why {
	e := &s.Execution
	w := Why{Facts: Facts{Attempt: e.Attempt, MaxAttempts: e.MaxAttempts}}
	switch {
	case e.Status.Final():
		w.ended(&s)
		if s.Run != nil {
			w.Facts.Run, w.Facts.Nodes = s.Run.ID, s.Run.nodes()
		}
	case s.Run != nil:
		w.goes(&s)
	case e.Status == job.Running || e.Status == job.Cancelling:
		w.runs(&s)
	case e.Status == job.Waiting || s.Job.State == job.Paused && e.Trigger.OfItself() && e.Trigger != job.ByBackfill: // held by its job's pause, though perhaps not yet in the store
		w.held(&s)
	case e.DueAt.After(s.Now):
		w.later(&s)
	default:
		w.waits(&s)
	}
	if s.Node != nil {
		w.within(s.Node)
	}
	return w
}

func (w *Why) say(code Code, format string, args ...any) {
	w.Code, w.Text = code, fmt.Sprintf(format, args...)
}

// held explains an execution held back by its job's pause.
func (w *Why) held(s *Situation) {
	j := &s.Job
	w.Since, w.Facts.Reason, w.Facts.Until = j.PausedAt, j.PauseNote, j.PausedTill
	switch {
	case j.State == job.Paused:
	case len(s.Missing) > 0:
		w.parents(s)
		return
	default:
		w.say(Paused, "It is held back, and is let go with its job.")
		return
	}
	text := "Its job is paused"
	if !j.PausedAt.IsZero() {
		text += " since " + instant(j.PausedAt)
	}
	if !j.PausedTill.IsZero() {
		text += " until " + instant(j.PausedTill)
		w.Start = latest(j.PausedTill, s.Execution.DueAt)
	}
	if j.PauseNote != "" {
		text += fmt.Sprintf(" (%s)", j.PauseNote)
	}
	w.say(Paused, "%s, and what its schedule fired waits for that to end.", text)
}

// parents is for what waits for the jobs that its job depends on.
func (w *Why) parents(s *Situation) {
	w.Since = s.Execution.DueAt
	for _, p := range s.Missing {
		name := fmt.Sprintf("%q", p.Name)
		if p.Key != "" {
			name = p.Key
		}
		w.Facts.Parents = append(w.Facts.Parents, name)
	}
	names := w.Facts.Parents
	const most = 10
	if more := len(names) - most; more > 0 {
		names = append(names[:most:most], fmt.Sprintf("%d more", more))
	}
	ended := map[workflow.Condition]string{workflow.OnFailed: "failed", workflow.OnEnd: "ended"}[s.Condition]
	if ended == "" {
		ended = "succeeded"
	}
	w.say(Parents, "It waits for the jobs that its job depends on: since its job last fired, these have not %s: %s.", ended, strings.Join(names, ", "))
}

// later is for what is not due.
func (w *Why) later(s *Situation) {
	e := &s.Execution
	w.Facts.Until, w.Start = e.DueAt, e.DueAt
	last, snoozed := s.last()
	switch {
	case snoozed != nil && strings.Contains(snoozed.Note, putOff):
		w.Since = snoozed.At
		w.Facts.Reason = snoozed.Note
		w.say(Breaker, "Its target's host is taken to be down, and calls to it are put off until %s: %s", instant(e.DueAt), sentence(snoozed.Note))
	case snoozed != nil && strings.Contains(snoozed.Note, limited):
		w.Since, w.Facts.Reason = snoozed.At, snoozed.Note
		w.say(Snoozed, "Calls to its target's host are limited, and this one is put off until %s: %s", instant(e.DueAt), sentence(snoozed.Note))
	case snoozed != nil:
		w.Since, w.Facts.Reason = snoozed.At, snoozed.Note
		text := ""
		if snoozed.Note != "" {
			text = ": " + snoozed.Note
		}
		w.say(Snoozed, "Its worker asked for it again at %s%s", instant(e.DueAt), sentence(text))
	case last != nil && e.Tries > 0:
		w.Since, w.Facts.Error, w.Facts.ExitCode = last.EndedAt, &last.Error, exitCode(&last.Error)
		w.say(Backoff, "Attempt %d of %d failed (%s), and the next one is due at %s.", last.Number, e.MaxAttempts, last.Error, instant(e.DueAt))
	default:
		w.Since = e.ID.At()
		w.say(NotDue, "It is not due until %s, in %s.", instant(e.DueAt), about(e.DueAt.Sub(s.Now)))
	}
}

// putOff is part of a worker's message about a call that its circuit breaker postponed.
const putOff = "is taken to be down after"

// limited is part of a worker's message about a call over its host's limit.
const limited = " are put off: "

// last returns the last attempt that failed or was lost, or the snooze after it.
func (s *Situation) last() (a *job.PastAttempt, snoozed *job.Event) {
	if n := len(s.Attempts); n > 0 {
		a = &s.Attempts[n-1]
	}
	for i := range s.Events {
		x := &s.Events[i]
		if x.Kind == job.EventSnoozed && (a == nil || x.Token > a.Token) && (snoozed == nil || x.Token > snoozed.Token) {
			snoozed = x
		}
	}
	return a, snoozed
}

// waits explains an execution that is due and not running.
func (w *Why) waits(s *Situation) {
	e := &s.Execution
	needs := e.Class.Needs()
	f := &w.Facts
	w.Since, f.Needs = e.DueAt, &needs
	if a, _ := s.last(); a != nil {
		f.Error = &a.Error
	}
	if s.Pause.Holds(s.Now) {
		w.halted(s)
		return
	}
	runs := needs.Target == job.Workflow // the servers themselves begin it
	if !runs && !w.servable(s) {
		return
	}
	for i := range s.Limits {
		if w.limited(s, &s.Limits[i]) {
			return
		}
	}
	f.Ahead, f.More = &s.Ahead, s.More
	many := strconv.Itoa(s.Ahead)
	if s.More {
		many = "more than " + many
	}
	if runs {
		w.say(Ready, "It has been due for %s. The servers begin runs themselves, so it may begin at any moment; %s of the tenant's are to start before it.", about(s.Now.Sub(e.DueAt)), many)
		return
	}
	free := f.Slots - f.Busy
	if free <= 0 {
		w.say(Busy, "All %d slots of the %s that can run it are busy, and %s of the tenant's are to start before it.", f.Slots, number(f.Matching, "worker"), many)
		if !s.More && s.Average > 0 && f.Slots > 0 {
			rounds := s.Ahead/f.Slots + 1
			w.Start = s.Now.Add(time.Duration(rounds) * s.Average)
		}
		return
	}
	w.say(Ready, "It has been due for %s and may start at any moment: %d of %d slots are free, and %s of the tenant's are to start before it.",
		about(s.Now.Sub(e.DueAt)), free, f.Slots, many)
	if s.Ahead < free && !s.More {
		w.Start = s.Now
	}
}

// halted explains an execution held back by its queue's pause.
func (w *Why) halted(s *Situation) {
	p := &s.Pause
	f := &w.Facts
	w.Since, f.Reason, f.By, f.Until = latest(p.At, s.Execution.DueAt), p.Reason, p.By, p.Until
	text := fmt.Sprintf("Its queue %q is paused since %s", f.Needs.Queue, instant(p.At))
	if p.By != "" {
		text += ", by " + p.By
	}
	if !p.Until.IsZero() {
		text += ", until " + instant(p.Until)
	}
	if p.Reason != "" {
		text += ", because: " + p.Reason
	}
	w.say(QueuePaused, "%s", sentence(text))
}

// servable reports whether a worker could run it, and what is missing if none could.
func (w *Why) servable(s *Situation) bool {
	f := &w.Facts
	needs := f.Needs
	var live []job.Worker
	leaving := 0 // workers that could run it but take no new work
	for _, x := range s.Workers {
		state := x.State(s.Now)
		if (state == job.WorkerDraining || state == job.WorkerCordoned) && x.Serves(s.Execution.Tenant, s.Execution.Class) {
			leaving++
		}
		if state.Takes() {
			live = append(live, x)
			if x.Serves(s.Execution.Tenant, s.Execution.Class) {
				f.Matching++
				f.Slots += x.Capacity
				f.Busy += min(x.Running, x.Capacity)
			}
		}
	}
	f.Workers = len(live)
	if f.Matching == 0 && leaving > 0 {
		code := NoMatch
		if len(live) == 0 {
			code = NoWorkers
		}
		w.say(code, "There is no worker that takes it: %s that could run it takes nothing new (draining or cordoned).", number(leaving, "worker"))
		return false
	}
	if len(live) == 0 {
		w.say(NoWorkers, "There is no worker: none is connected that takes executions of this tenant.")
		return false
	}
	if f.Matching > 0 {
		return true
	}
	f.Lacks = lacks(live, s.Execution.Tenant, *needs)
	w.say(NoMatch, "None of the connected workers (%d) can run it: none has %s.", f.Workers, strings.Join(f.Lacks, ", nor "))
	return false
}

// lacks names the requirements of an execution that no worker meets.
func lacks(live []job.Worker, t tenant.ID, needs job.Needs) (out []string) {
	everywhere := slices.Clone(live) // as if they took every queue
	for i := range everywhere {
		everywhere[i].Queues = nil
	}
	none := func(ws []job.Worker, n job.Needs) bool {
		n.Target, n.Kind = needs.Target, needs.Kind
		c := n.Class()
		return !slices.ContainsFunc(ws, func(w job.Worker) bool { return w.Serves(t, c) })
	}
	if none(everywhere, job.Needs{}) {
		what := fmt.Sprintf("the target %q", needs.Target)
		if needs.Target == job.Handler {
			what += fmt.Sprintf(" with the kind %q", needs.Kind)
		}
		return []string{what}
	}
	for _, l := range needs.Labels {
		if none(everywhere, job.Needs{Labels: []string{l}}) {
			out = append(out, fmt.Sprintf("the label %q", l))
		}
	}
	if none(live, job.Needs{Queue: needs.Queue}) {
		out = append(out, fmt.Sprintf("the queue %q", needs.Queue))
	}
	if len(out) == 0 {
		out = append(out, "its queue and labels together")
	}
	return out
}

// limited reports whether a limit keeps it from starting.
func (w *Why) limited(s *Situation, l *Limit) bool {
	over := l.Max > 0 && l.Running >= l.Max
	if !over && len(l.Held) == 0 && l.Wait <= 0 {
		return false
	}
	w.Facts.Limit = l
	whose := map[string]string{
		"tenant": "its tenant", "queue": fmt.Sprintf("its queue %q", l.Queue), "job": "its job", "key": fmt.Sprintf("the value that its concurrency key %q has", l.Key),
	}[l.Scope]
	switch {
	case over && s.overlaps(l):
		w.say(Overlap, "An earlier execution of its job has not ended, and by its overlap policy %q it waits for that.", s.Job.Overlap)
	case over:
		w.say(Concurrency, "The concurrency limit of %s is %d, and %d run.", whose, l.Max, l.Running)
	case len(l.Held) > 0:
		w.say(Concurrency, "The concurrency limit of %s is %d, and %d run: %s, being returned.", whose, l.Max, l.Running, l.held())
	default:
		w.Facts.Until = s.Now.Add(l.Wait)
		w.say(RateLimit, "The rate limit of %s (%s) lets the next one start in %s.", whose, l.Rate, about(l.Wait))
		if s.Ahead == 0 && !s.More {
			w.Start = w.Facts.Until
		}
	}
	return true
}

// held lists the holders of a limit and their shares.
func (l *Limit) held() string {
	var who []string
	n := 0
	for _, h := range l.Held {
		n += h.Shares
		who = append(who, fmt.Sprintf("%s (%d)", h.Server, h.Shares))
	}
	if len(who) == 1 {
		return fmt.Sprintf("%d of %d shares are held by server %s", n, l.Max, l.Held[0].Server)
	}
	return fmt.Sprintf("%d of %d shares are held by servers %s", n, l.Max, strings.Join(who, ", "))
}

// overlaps reports whether a limit comes from the job's overlap policy.
func (s *Situation) overlaps(l *Limit) bool {
	return l.Scope == "job" && l.Max == 1 && (s.Job.Overlap == job.OverlapQueue || s.Job.Overlap == job.OverlapReplace) && s.Job.MaxConcurrent != 1
}

// runs explains an execution held by a worker or its target.
func (w *Why) runs(s *Situation) {
	e := &s.Execution
	w.Since, w.Facts.Worker, w.Facts.Progress = e.LeasedAt, e.Worker, e.Progress
	if e.Status == job.Cancelling {
		w.Since = e.CancelAt
		for _, x := range s.Events {
			if x.Kind == job.EventAsked {
				w.Facts.Reason = x.Note
			}
		}
		w.say(Cancelling, "It was asked to stop at %s%s, and is ended by force where it has not within 30 s.", instant(e.CancelAt), because(w.Facts.Reason))
		return
	}
	for _, x := range s.Events {
		if x.Kind == job.EventParked && x.Token == e.Token {
			w.Since, w.Facts.Until = x.At, e.LeasedAt.Add(e.Timeout)
			w.say(Async, "Its target took attempt %d over at %s, and has until %s to complete it.", e.Attempt, instant(x.At), instant(w.Facts.Until))
			return
		}
	}
	if e.Timeout > 0 {
		w.Facts.Until = e.LeasedAt.Add(e.Timeout)
	}
	text := ""
	if p := e.Progress; p != nil {
		text = fmt.Sprintf(", and says that it has come to %d %%", p.Percent)
	}
	w.say(Running, "Attempt %d of %d has run for %s%s.", e.Attempt, e.MaxAttempts, about(s.Now.Sub(e.LeasedAt)), text)
}

// ended explains a finished execution.
func (w *Why) ended(s *Situation) {
	e := &s.Execution
	f := &w.Facts
	w.Since, f.Worker, f.Error, f.ExitCode = e.FinishedAt, e.Worker, e.Error, exitCode(e.Error)
	cause := "no error was kept"
	if e.Error != nil {
		cause = e.Error.String()
		if e.Error.HTTPStatus != 0 && !strings.Contains(cause, strconv.Itoa(e.Error.HTTPStatus)) {
			cause += fmt.Sprintf(" (HTTP status %d)", e.Error.HTTPStatus)
		}
	}
	switch e.Status {
	case job.Succeeded:
		w.say(Succeeded, "It succeeded with attempt %d of %d, %s after its first start.", e.Attempt, e.MaxAttempts, about(e.Duration()))
	case job.Cancelled:
		f.Reason = message(e.Error)
		text := "It was cancelled before it started"
		if !e.StartedAt.IsZero() {
			text = "It was cancelled while it ran"
		}
		for _, x := range s.Events {
			if x.Kind == job.EventForced {
				text += ", did not stop when asked to, and was ended by force"
			}
		}
		w.say(Cancelled, "%s, at %s%s.", text, instant(e.FinishedAt), because(f.Reason))
	case job.Skipped:
		f.Reason = e.Metadata["reason"]
		if f.Reason == "" {
			f.Reason = message(e.Error)
		}
		if !e.PassedOver() {
			w.say(Skipped, "Its worker found nothing to do, at %s%s.", instant(e.FinishedAt), because(f.Reason))
			break
		}
		text := "The instant " + instant(e.ScheduledAt)
		if n := e.Metadata["count"]; n != "" {
			text = fmt.Sprintf("%s instants from %s to %s", n, e.Metadata["from"], e.Metadata["to"])
		}
		w.say(Skipped, "%s did not fire%s.", text, because(f.Reason))
	case job.Expired:
		f.Reason = message(e.Error)
		w.say(Expired, "It was due at %s and had not started when its time was over, at %s.", instant(e.DueAt), instant(e.FinishedAt))
	default:
		w.failed(s, cause)
	}
}

// failed explains an execution that failed for good.
func (w *Why) failed(s *Situation, cause string) {
	e := &s.Execution
	reason, _ := job.Dead(e.Status, e.Error, e.Tries, e.MaxAttempts)
	switch {
	case reason == job.DeadPoison:
		w.say(Poison, "It was given up after it had lost its worker %d times: %s", e.Lost, sentence(cause))
	case e.Error != nil && e.Error.Type == job.Stalled:
		w.say(Stalled, "Attempt %d of %d, its last, stood still for too long: %s", e.Attempt, e.MaxAttempts, sentence(cause))
	case e.Status == job.TimedOut:
		w.say(TimedOut, "Attempt %d of %d, its last, ran out of time: %s", e.Attempt, e.MaxAttempts, sentence(cause))
	case reason == job.DeadForGood:
		w.say(ForGood, "Attempt %d of %d failed in a way that is not tried again: %s", e.Attempt, e.MaxAttempts, sentence(cause))
	default:
		w.say(Exhausted, "All of its %s failed; the last error: %s", number(e.MaxAttempts, "attempt"), sentence(cause))
	}
}

func message(e *job.Error) string {
	if e == nil {
		return ""
	}
	return e.Message
}

var exits = regexp.MustCompile(`exit(?:ed with)? (?:status|code) (\d+)`)

// exitCode returns the exit code of a command from its error.
func exitCode(e *job.Error) *int {
	if e == nil || e.Type != job.ExitCode {
		return nil
	}
	m := exits.FindStringSubmatch(e.Message)
	if m == nil {
		return nil
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return nil
	}
	return &n
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// sentence ends a text with a full stop.
func sentence(s string) string { return strings.TrimRight(s, ". \n") + "." }

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// about formats a duration for people.
func about(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(0, d.Milliseconds()))
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
