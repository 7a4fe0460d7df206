package importer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/declare"
	"github.com/carillon-jobs/carillon/internal/yamljson"
)

// tasks reads a file whose entries are handlers of an application, or related entries.
type tasks struct {
	maker
	doc  *yamljson.Document
	zone string // of the machine it comes from; "": unknown
	tag  string
}

// parsed calls read for each document of a file.
func (s *tasks) parsed(data []byte, read func(json.RawMessage)) error {
	s.keys = map[string]bool{}
	docs, err := yamljson.Parse(data)
	if err != nil {
		return err
	}
	for i := range docs {
		s.doc = &docs[i]
		read(docs[i].JSON)
	}
	return nil
}

// task is one entry: its job so far, and where to report differences.
type task struct {
	*tasks
	line int
	job  declare.Job
}

// task begins a job.
func (s *tasks) task(name, path, from string) *task {
	key := s.key(name)
	t := &task{tasks: s, line: s.doc.LineOf(path), job: declare.Job{JobRequest: client.JobRequest{Key: &key, Name: nameText(name, key), Description: from}}}
	if s.tag != "" {
		t.job.Tags = []string{s.tag}
	}
	return t
}

// nameText returns a valid name for a job.
func nameText(name, otherwise string) string {
	clean := shorten(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, name), 200)
	if clean == "" {
		return otherwise
	}
	return clean
}

func (t *task) say(kind, about, format string, args ...any) {
	t.tell(t.line, *t.job.Key, kind, about, format, args...)
}

// done adds the job.
func (t *task) done() { t.out.Jobs = append(t.out.Jobs, t.job) }

// cron sets the job's expression; false means that it is not accepted.
func (t *task) cron(expression, zone string, day schedule.Day) bool {
	expression = strings.Join(strings.Fields(expression), " ")
	if zone == "" {
		zone = t.zone
	}
	if _, err := schedule.NewCache(time.LoadLocation).Cron(expression, zone, day); err != nil {
		t.say(LeftOut, "schedule", "%s is not accepted: %v", shorten(expression, 60), err)
		return false
	}
	t.job.Schedule = &client.Schedule{Type: "CRON", CronExpression: &expression}
	if zone != "" {
		t.job.Schedule.Timezone = &zone
	}
	if f := strings.Fields(expression); len(f) >= 5 && day != schedule.Vixie && f[len(f)-3] != "*" && f[len(f)-1] != "*" {
		t.job.Schedule.Day = new(string(day))
		how := "either of the two day fields names"
		if day == schedule.Both {
			how = "both day fields name"
		}
		t.say(Note, "days", "it fires on a day that %s, as there (day: %s)", how, day)
	}
	return true
}

// every sets the job's interval; false means that it is not accepted.
func (t *task) every(d time.Duration) bool {
	if d < time.Second || d%time.Second != 0 && d < 10*time.Second || d > 366*24*time.Hour {
		t.say(LeftOut, "schedule", "every %s: an interval is at least a second and at most a year", d)
		return false
	}
	t.job.Schedule = &client.Schedule{Type: "INTERVAL", Every: new(d.String())}
	return true
}

var notKind = regexp.MustCompile(`[^A-Za-z0-9._:/-]+`)

// handled sets the application handler of a job; false means that there is none.
func (t *task) handled(name string, payload any) bool {
	kind := strings.Trim(notKind.ReplaceAllString(strings.TrimSpace(name), "-"), "-")
	if kind == "" || len(kind) > 128 {
		t.say(LeftOut, "class", "%q is no name of a handler", shorten(name, 60))
		return false
	}
	t.job.Execution = client.Target{Target: "worker", Kind: kind}
	if payload != nil {
		data, err := json.Marshal(payload)
		if err != nil || strings.Contains(string(data), "${secret:") {
			t.say(LeftOut, "args", "its arguments cannot be taken over as they are")
			return false
		}
		t.job.Execution.Payload = data
	}
	return true
}

// queue puts the job into a queue, under a valid name.
func (t *task) queue(name string) {
	if name == "" || name == "default" {
		return
	}
	q := strings.Trim(notKey.ReplaceAllString(strings.ToLower(name), "-"), "-._")
	if q == "" || len(q) > 128 {
		t.say(LeftOut, "queue", "%q is no name of a queue", shorten(name, 60))
		return
	}
	if q != name {
		t.say(Differs, "queue", "%s is the queue %s here", shorten(name, 60), q)
	}
	t.job.Queue = &q
}

// without reports which fields of an entry have no counterpart, each with a reason.
func (t *task) without(o map[string]json.RawMessage, fields [][2]string) {
	for _, f := range fields {
		switch strings.TrimSpace(string(o[f[0]])) {
		case "", "null", `""`, "{}", `"{}"`, "[]", "false":
		default:
			t.say(LeftOut, f[0], "%s", f[1])
		}
	}
}

// object returns the content of an entry, by name; a colon before one, as Ruby writes symbols, is left out.
func object(data json.RawMessage) map[string]json.RawMessage {
	var raw map[string]json.RawMessage
	if json.Unmarshal(data, &raw) != nil {
		return nil
	}
	out := map[string]json.RawMessage{}
	for name, value := range raw {
		out[strings.TrimPrefix(name, ":")] = value
	}
	return out
}

// written returns a name as in the file, perhaps with a colon before it.
func written(data json.RawMessage, name string) string {
	var raw map[string]json.RawMessage
	if json.Unmarshal(data, &raw) == nil && raw[name] == nil && raw[":"+name] != nil {
		return ":" + name
	}
	return name
}

// names returns those of an object, in order.
func names(o map[string]json.RawMessage) []string {
	out := make([]string, 0, len(o))
	for name := range o {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// text returns a text of an entry; numbers and booleans as they are written.
func text(o map[string]json.RawMessage, name string) string {
	raw := strings.TrimSpace(string(o[name]))
	var s string
	if json.Unmarshal(o[name], &s) == nil {
		return strings.TrimSpace(s)
	}
	if raw == "null" || strings.HasPrefix(raw, "{") || strings.HasPrefix(raw, "[") {
		return ""
	}
	return raw
}

// truth returns a boolean, and whether it is one.
func truth(o map[string]json.RawMessage, name string, otherwise bool) bool {
	if v, err := strconv.ParseBool(text(o, name)); err == nil {
		return v
	}
	return otherwise
}

var spanPart = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*(w|d|h|m|s|y|M)`)

// span parses a duration such as 1h30m, 2d or 45s.
func span(s string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 && n < 1e9 {
		return time.Duration(n * float64(time.Second)), nil
	}
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	var total time.Duration
	for rest := strings.TrimSpace(s); rest != ""; {
		part := spanPart.FindStringSubmatch(rest)
		if part == nil || units[part[2]] == 0 {
			return 0, fmt.Errorf("%q is no duration such as 90s or 1h30m", shorten(s, 40))
		}
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil || n > 1e6 {
			return 0, fmt.Errorf("%q is no duration such as 90s or 1h30m", shorten(s, 40))
		}
		total += time.Duration(n * float64(units[part[2]]))
		rest = strings.TrimSpace(rest[len(part[0]):])
	}
	if total <= 0 {
		return 0, fmt.Errorf("%q is no duration such as 90s or 1h30m", shorten(s, 40))
	}
	return total, nil
}
