// Package notice defines notification rules, which say which events of which jobs a tenant is notified of, and where.
//
// It validates rules and decides which of them an event concerns. It never looks for events and never sends anything.
package notice

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Event is something that a rule may notify of.
type Event string

// The events.
const (
	Failed       Event = "failed"           // an execution ended as FAILED or TIMED_OUT
	DeadLettered Event = "dead_lettered"    // and became a dead letter: once for each
	Late         Event = "late"             // an execution of the job is due and has not started within the rule's time
	Missing      Event = "missing"          // an instant passed and nothing ran: it was missed, or expired, or nobody fires the job
	Approval     Event = "approval_waiting" // a run of a workflow waits for an approval: once for each
	Recovered    Event = "recovered"        // a job with an earlier notification is healthy again
)

// Events lists all events.
func Events() []Event { return []Event{Failed, DeadLettered, Late, Missing, Approval, Recovered} }

// Tag marks the jobs that send notifications. There are no notifications about them.
const Tag = "carillon-notification"

// Rule describes what a tenant is notified of, and where.
type Rule struct {
	Tenant      tenant.ID     `json:"-"`
	Name        string        `json:"-"` // unique in the tenant
	Events      []Event       `json:"events"`
	Jobs        []job.ID      `json:"jobs,omitempty"` // none: of every job
	Tags        []string      `json:"tags,omitempty"` // none: jobs with any tags; else those with at least one of these
	URL         string        `json:"url"`
	LateAfter   time.Duration `json:"late_after,omitempty"`
	SilentUntil time.Time     `json:"silent_until,omitzero"` // nothing is told before
	CreatedAt   time.Time     `json:"-"`
	UpdatedAt   time.Time     `json:"-"`
}

// The limits of rules.
const (
	MaxRules         = 100 // of one tenant
	DefaultLateAfter = time.Minute
	minLateAfter     = 5 * time.Second
	maxLateAfter     = 7 * 24 * time.Hour
	MaxListed        = 100 // jobs, or tags, of one rule
)

// Check validates a rule.
func (r Rule) Check() job.Invalids {
	var v job.Invalids
	if !job.ValidKey(r.Name) {
		v.Add("name", job.Show(r.Name), "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	}
	if len(r.Events) == 0 {
		v.Add("events", "[]", "at least one of "+words())
	}
	for i, e := range r.Events {
		if !slices.Contains(Events(), e) {
			v.Add(fmt.Sprintf("events[%d]", i), job.Show(string(e)), "one of "+words())
		} else if slices.Index(r.Events, e) < i {
			v.Add(fmt.Sprintf("events[%d]", i), string(e), "each event only once")
		}
	}
	if slices.Contains(r.Events, Recovered) && !slices.ContainsFunc(r.Events, func(e Event) bool { return e != Recovered && e != Approval }) {
		v.Add("events", job.Show(fmt.Sprint(r.Events)), "beside recovered, an event to recover from: one of failed, dead_lettered, late, missing")
	}
	if len(r.Tags) > MaxListed {
		v.Add("tags", fmt.Sprintf("%d tags", len(r.Tags)), "at most 100 tags")
	}
	for i, t := range r.Tags {
		if bad := job.CheckTags([]string{t}); len(bad) > 0 {
			v.Add(fmt.Sprintf("tags[%d]", i), t, bad[0].Want)
		}
	}
	if r.LateAfter < minLateAfter || r.LateAfter > maxLateAfter {
		v.Add("late_after_seconds", int64(r.LateAfter/time.Second), "a whole number from 5 to 604800 (7 days)")
	}
	d := r.Job()
	for _, x := range d.Check() {
		if x.Field == "execution.callback_url" {
			x.Field = "callback_url"
			v = append(v, x)
		}
	}
	return v
}

func words() string {
	all := make([]string, len(Events()))
	for i, e := range Events() {
		all[i] = string(e)
	}
	return strings.Join(all, ", ")
}

// Wants reports whether the rule covers the event and the job.
func (r Rule) Wants(e Event, j job.Job) bool {
	return slices.Contains(r.Events, e) && r.Concerns(j)
}

// Concerns reports whether the rule covers the job. No rule covers the jobs that send notifications.
func (r Rule) Concerns(j job.Job) bool {
	if slices.Contains(j.Tags, Tag) || len(r.Jobs) > 0 && !slices.Contains(r.Jobs, j.ID) {
		return false
	}
	return len(r.Tags) == 0 || slices.ContainsFunc(j.Tags, func(t string) bool { return slices.Contains(r.Tags, t) })
}

// Silent reports whether the rule is muted now.
func (r Rule) Silent(now time.Time) bool { return now.Before(r.SilentUntil) }

// Job returns the job that sends a notification of the rule, without its payload.
func (r Rule) Job() job.Definition {
	return job.Definition{
		Name: "notification: " + r.Name, Schedule: job.Schedule{Type: job.Immediate}, Tags: []string{Tag},
		Target:   job.Target{Kind: job.HTTP, URL: r.URL, Method: "POST", Timeout: 30 * time.Second},
		Retry:    job.RetryPolicy{MaxRetries: 8, Backoff: job.Exponential, InitialDelay: 5 * time.Second, MaxDelay: 10 * time.Minute},
		Priority: job.DefaultPriority, Queue: job.DefaultQueue,
	}
}

// Alarm is an ongoing state of a job that a rule has notified of.
type Alarm struct {
	Tenant    tenant.ID
	Rule      string
	Job       job.ID
	Event     Event           // the one that began it
	Execution job.ExecutionID // the execution that it began with; zero: none
	Since     time.Time
}

// Key identifies a notification, so that it is sent once: a rule, an event, a job and its subject.
func Key(rule string, e Event, j job.ID, about [16]byte, at time.Time) string {
	return fmt.Sprintf("notice/%s/%s/%s/%s/%d", rule, e, j, hex.EncodeToString(about[:]), at.UnixMicro())
}
