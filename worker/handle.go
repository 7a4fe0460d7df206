package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/client"
)

// Progress reports the progress of the attempt that ctx belongs to: from 0 to 100 percent, with a short message. It
// is sent with the next heartbeat, which is brought forward. Each call is a sign of progress, even with unchanged
// values. Outside an attempt it does nothing.
func Progress(ctx context.Context, percent int, message string) {
	if r := runningOf(ctx); r != nil {
		r.progress.report(percent, message)
	}
}

const maxMessage = 1000 // characters; more are cut off

// progress holds what one attempt reports, and how much of it the server knows.
type progress struct {
	hurry func()

	mu   sync.Mutex
	last client.Progress // guarded by mu
	said int             // guarded by mu: reports so far
	told int             // guarded by mu: of them, those that the server has answered
}

func (p *progress) report(percent int, message string) {
	if utf8.RuneCountInString(message) > maxMessage {
		message = string([]rune(message)[:maxMessage-1]) + "…"
	}
	p.mu.Lock()
	p.last = client.Progress{Percent: min(max(percent, 0), 100), Message: message}
	p.said++
	p.mu.Unlock()
	p.hurry()
}

// news returns what the server does not know yet, if anything, and a function to call when it does.
func (p *progress) news() (*client.Progress, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said == p.told {
		return nil, nil
	}
	last, said := p.last, p.said
	return &last, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = max(p.told, said)
	}
}

// Snooze returns an error that asks to run the execution again after d: nothing failed, and no retry is used up.
func Snooze(d time.Duration) error { return snooze(max(d, time.Millisecond)) }

type snooze time.Duration

func (s snooze) Error() string { return fmt.Sprintf("again in %s", time.Duration(s)) }

// Skip returns an error that says that there was nothing to do: the execution ends SKIPPED, with the reason, and is
// not retried. What follows a node of a workflow that is skipped depends on its trigger.
func Skip(reason string) error { return skip(reason) }

type skip string

func (s skip) Error() string { return string(s) }

// Never wraps an error so that the execution is not retried.
func Never(err error) error { return never{err} }

type never struct{ error }

func (n never) Unwrap() error { return n.error }

// Outcome returns the outcome for the error that work ended with: nil is a success, Snooze, Skip and Never mean what
// they say, and any other is a failure that may be retried.
func Outcome(err error) client.Outcome {
	if err == nil {
		return client.Outcome{Status: client.Succeeded}
	}
	if s := snooze(0); errors.As(err, &s) {
		return client.Outcome{Status: client.Snoozed, RetryAfterMS: max(1, time.Duration(s).Milliseconds())}
	}
	if s := skip(""); errors.As(err, &s) {
		return client.Outcome{Status: client.Skipped, Error: &client.Error{Type: "SKIPPED", Message: err.Error()}}
	}
	return client.Outcome{
		Status: client.Failed, Retryable: !errors.As(err, new(never)), Error: &client.Error{Type: "HANDLER_ERROR", Message: err.Error()},
	}
}
