package declare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/carillon-jobs/carillon/client"
)

// Of returns a job as a file would declare it, without fields that have their default.
func Of(j client.Job) Job {
	s, x := j.Schedule, j.Execution
	out := Job{JobRequest: client.JobRequest{
		Name: j.Name, Key: j.Key, Description: j.Description, Tags: j.Tags, Owner: j.Owner, Runbook: j.Runbook, Priority: &j.Priority, Labels: j.Labels,
		Overlap: unless(j.Overlap, "allow"), CatchUp: unless(j.CatchUp, "latest"), CatchUpLimit: unless(j.CatchUpLimit, 100), Queue: unless(j.Queue, "default"),
		MaxConcurrent: j.MaxConcurrent, ConcurrencyKey: j.ConcurrencyKey, RateLimit: j.RateLimit, UniqueKey: j.UniqueKey,
		ExpiresAfter: j.ExpiresAfter, AutoRedriveAfter: j.AutoRedriveAfter, Retention: retention(j.Retention),
		RetryPolicy: &client.RetryPolicy{
			MaxRetries: &j.RetryPolicy.MaxRetries, Backoff: j.RetryPolicy.Backoff, InitialDelayMS: &j.RetryPolicy.InitialDelayMS, MaxDelayMS: &j.RetryPolicy.MaxDelayMS,
		},
		Schedule: &client.Schedule{
			Type: s.Type, ScheduledTime: s.ScheduledTime, CronExpression: s.CronExpression, Timezone: s.Timezone, Every: s.Every,
			StartAt: s.StartAt, EndAt: s.EndAt, MaxRuns: s.MaxRuns, Calendar: s.Calendar,
		},
		Execution: client.Target{
			Target: x.Target, CallbackURL: x.CallbackURL, Method: x.Method, Headers: x.Headers, Payload: x.Payload, TimeoutSeconds: unless(x.TimeoutSeconds, 300),
			StallTimeoutSeconds: x.StallTimeout, TotalTimeoutSeconds: x.TotalTimeout, Expect: x.Expect, FollowRedirects: x.FollowRedirects,
			Command: x.Command, ArtifactID: x.ArtifactID, Entrypoint: x.Entrypoint, Env: x.Env, Kind: x.Kind,
			WorkKind: x.WorkKind, DurationMS: x.DurationMS, FailAttempts: x.FailAttempts,
		},
	}}
	if s.Day != nil {
		out.Schedule.Day = unless(*s.Day, "vixie")
	}
	if s.JitterMS != nil {
		out.Schedule.JitterMS = unless(*s.JitterMS, 0)
	}
	if bytes.Equal(x.Payload, []byte("null")) {
		out.Execution.Payload = nil
	}
	if j.Status == "PAUSED" {
		out.Paused = new(true)
	}
	return out
}

// retention returns one without what is the same by default.
func retention(r *client.Retention) *client.Retention {
	if r == nil || r.FailedDays == nil || *r.FailedDays != r.Days {
		return r
	}
	return &client.Retention{Days: r.Days}
}

func unless[T comparable](v, usual T) *T {
	if v == usual {
		return nil
	}
	return &v
}

// OfCalendar returns a calendar as a file would declare it.
func OfCalendar(c client.Calendar) Calendar {
	return Calendar{Name: c.Name, CalendarRequest: client.CalendarRequest{Dates: c.Dates, Yearly: c.Yearly, Weekdays: c.Weekdays, Windows: c.Windows, Timezone: c.Timezone}}
}

// Write writes a file that declares jobs, workflows and calendars.
func Write(w io.Writer, d Declared) error {
	var b bytes.Buffer
	if len(d.Calendars) > 0 {
		b.WriteString("calendars:\n")
		for _, c := range d.Calendars {
			if err := item(&b, c); err != nil {
				return err
			}
		}
	}
	if len(d.Jobs) > 0 || b.Len() == 0 && len(d.Workflows) == 0 {
		if len(d.Jobs) == 0 {
			b.WriteString("jobs: []\n")
		} else {
			b.WriteString("jobs:\n")
		}
		for _, j := range d.Jobs {
			if err := item(&b, j); err != nil {
				return err
			}
		}
	}
	if len(d.Workflows) > 0 {
		b.WriteString("workflows:\n")
		for _, x := range d.Workflows {
			if err := item(&b, x); err != nil {
				return err
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// first lists the fields of a job, or a calendar, that come first.
var first = []string{"key", "name", "description", "paused", "schedule", "depends_on", "condition", "execution"}

// item writes an entry of a list.
func item(b *bytes.Buffer, v any) error {
	data, err := plainJSON(v)
	if err != nil {
		return err
	}
	fields, err := ordered(data)
	if err != nil {
		return err
	}
	slices.SortStableFunc(fields, func(x, y field) int { return order(x.name) - order(y.name) })
	var body bytes.Buffer
	if err := writeFields(&body, fields, "    ", ""); err != nil {
		return err
	}
	b.WriteString("  - ")
	b.Write(bytes.TrimPrefix(body.Bytes(), []byte("    ")))
	return nil
}

func order(name string) int {
	if i := slices.Index(first, name); i >= 0 {
		return i
	}
	return len(first)
}

func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// field is a member of an object, with its position.
type field struct {
	name  string
	value json.RawMessage
}

// ordered returns the members of an object, in order.
func ordered(object []byte) (out []field, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		f := field{name: t.(string)}
		if err := d.Decode(&f.value); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func writeFields(b *bytes.Buffer, fields []field, indent, path string) error {
	for _, f := range fields {
		name := path + f.name
		verbatim := name == "execution.payload" || name == "input" || name == "input_schema"
		switch {
		case string(f.value) == "null" || string(f.value) == "{}" && !verbatim || string(f.value) == "[]" && !verbatim:
			continue
		case name == "nodes":
			if err := writeNodes(b, f.value, indent); err != nil {
				return err
			}
		case f.value[0] == '{' && !verbatim:
			inner, err := ordered(f.value)
			if err != nil {
				return err
			}
			fmt.Fprintf(b, "%s%s:\n", indent, scalar(f.name))
			if err := writeFields(b, inner, indent+"  ", name+"."); err != nil {
				return err
			}
		case verbatim: // JSON is YAML
			fmt.Fprintf(b, "%s%s: %s\n", indent, f.name, escaped(string(f.value)))
		default:
			fmt.Fprintf(b, "%s%s: %s\n", indent, scalar(f.name), value(f.value))
		}
	}
	return nil
}

// writeNodes writes the nodes of a workflow, one per line.
func writeNodes(b *bytes.Buffer, list json.RawMessage, indent string) error {
	var nodes []json.RawMessage
	if err := json.Unmarshal(list, &nodes); err != nil {
		return err
	}
	fmt.Fprintf(b, "%snodes:\n", indent)
	for _, n := range nodes {
		fmt.Fprintf(b, "%s  - %s\n", indent, escaped(string(n)))
	}
	return nil
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$`)
	special   = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}
)

// scalar formats a text, quoted if it could be mistaken for something else.
func scalar(s string) string {
	if plainText.MatchString(s) && !slices.Contains(special, strings.ToLower(s)) {
		return s
	}
	b, _ := plainJSON(s) // a text always encodes
	return escaped(string(b))
}

// escaped escapes the control characters that JSON allows but terminals obey.
func escaped(doc string) string {
	var b strings.Builder
	for _, r := range doc {
		if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// value formats a value in one line.
func value(v json.RawMessage) string {
	switch v[0] {
	case '"':
		var s string
		if json.Unmarshal(v, &s) == nil {
			return scalar(s)
		}
	case '[':
		var texts []string
		if json.Unmarshal(v, &texts) == nil {
			for i, t := range texts {
				texts[i] = scalar(t)
			}
			return "[" + strings.Join(texts, ", ") + "]"
		}
	}
	return escaped(string(v))
}
