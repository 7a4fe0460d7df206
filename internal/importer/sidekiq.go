package importer

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
)

// Sidekiq reads schedules of sidekiq-cron and sidekiq-scheduler: their YAML files.
type Sidekiq struct {
	Timezone string // of the machine; "": unknown
	Tag      string // that the jobs get; "": none
}

// Read reads a schedule: names with their tasks, at the top (sidekiq-cron) or under schedule (sidekiq-scheduler).
func (q Sidekiq) Read(data []byte) (Imported, error) {
	s := &tasks{zone: q.Timezone, tag: q.Tag}
	err := s.parsed(data, func(doc json.RawMessage) {
		var list []json.RawMessage
		if json.Unmarshal(doc, &list) == nil { // sidekiq-cron also accepts a list
			for _, one := range list {
				o := object(one)
				s.sidekiq(text(o, "name"), o, "")
			}
			return
		}
		o, raw, path := object(doc), doc, ""
		for _, under := range []string{"scheduler", "schedule"} {
			if inner := object(o[under]); inner != nil && inner["class"] == nil {
				path += written(raw, under) + "."
				o, raw = inner, o[under]
			}
		}
		for _, name := range names(o) {
			if entry := object(o[name]); entry["class"] != nil || entry["klass"] != nil || entry["cron"] != nil || entry["every"] != nil {
				s.sidekiq(name, entry, path+written(raw, name))
			}
		}
	})
	if len(s.out.Jobs) > 0 {
		s.tell(0, "", Differs, "class", "a Ruby class does not run here: each job wants a handler of its kind, in a worker of any language (docs/guides/workers.md); its payload is the list of arguments")
		s.tell(0, "", Differs, "retry", "Sidekiq tries again up to 25 times over about 20 days; here it is 25 times, from 15 s up to a day apart")
		s.tell(0, "", Note, "missed", "what is missed while nothing runs is left out (catch_up none); sidekiq-cron also enqueues what it missed within the last minute")
	}
	return s.out, err
}

func (s *tasks) sidekiq(name string, o map[string]json.RawMessage, path string) {
	class := text(o, "class")
	if class == "" {
		class = text(o, "klass")
	}
	if name == "" {
		name = class
	}
	if name == "" {
		s.tell(s.doc.LineOf(path), "", LeftOut, "entry", "it names no class")
		return
	}
	t := s.task(name, path, "From Sidekiq.")
	if d := text(o, "description"); d != "" {
		t.job.Description = shorten(d, 1000)
	}
	t.job.CatchUp = new("none")
	t.job.RetryPolicy = &client.RetryPolicy{MaxRetries: new(25), Backoff: "EXPONENTIAL", InitialDelayMS: new(int64(15_000)), MaxDelayMS: new(int64(86_400_000))}
	var args any = []any{}
	if raw := o["args"]; len(raw) > 0 && string(raw) != "null" {
		if json.Unmarshal(raw, &args) != nil {
			args = []any{}
		}
		if _, list := args.([]any); !list {
			args = []any{args}
		}
	}
	if !t.sidekiqSchedule(o) || !t.handled(class, args) {
		return
	}
	t.queue(text(o, "queue"))
	if !truth(o, "enabled", true) || text(o, "status") == "disabled" {
		t.job.Paused = new(true)
	}
	if truth(o, "date_as_argument", false) || truth(o, "include_metadata", false) {
		t.say(LeftOut, "args", "the time as an argument: an attempt has scheduled_time beside its payload")
	}
	if truth(o, "active_job", false) {
		t.say(Differs, "active_job", "queue prefixes of Active Job are not added")
	}
	t.done()
}

// sidekiqSchedule converts the schedule of an entry.
func (t *task) sidekiqSchedule(o map[string]json.RawMessage) bool {
	first := func(name string) string { // in a list, options follow
		var list []json.RawMessage
		if json.Unmarshal(o[name], &list) == nil && len(list) > 0 {
			return text(map[string]json.RawMessage{"": list[0]}, "")
		}
		return text(o, name)
	}
	switch {
	case first("cron") != "":
		return t.fugit(first("cron"))
	case first("every") != "" || first("interval") != "":
		text := first("every") + first("interval")
		d, err := span(text)
		if err != nil {
			t.say(LeftOut, "schedule", "%v", err)
			return false
		}
		if strings.HasPrefix(strings.TrimSpace(string(o["every"])), "[") {
			t.say(LeftOut, "every", "its options, such as first_in")
		}
		t.say(Differs, "schedule", "it fires first one interval after it is applied, and keeps to that grid across restarts; there each process counts anew")
		return t.every(d)
	case first("at") != "":
		at, err := time.Parse(time.RFC3339, strings.ReplaceAll(first("at"), "/", "-"))
		if err != nil {
			t.say(LeftOut, "schedule", "%s names no time with a zone", shorten(first("at"), 60))
			return false
		}
		t.job.Schedule = &client.Schedule{Type: "ONE_TIME", ScheduledTime: &at}
		return true
	case first("in") != "":
		t.say(LeftOut, "schedule", "in %s counts from the start of a process, which there is not; trigger a job from there", shorten(first("in"), 40))
		return false
	}
	t.say(LeftOut, "schedule", "it has none of cron, every, interval and at")
	return false
}

// fugit converts an expression, which may end with a zone.
func (t *task) fugit(expression string) bool {
	f := strings.Fields(expression)
	zone := ""
	if n := len(f); n > 5 && (strings.Contains(f[n-1], "/") && !strings.ContainsAny(f[n-1], "*0123456789") || slices.Contains([]string{"UTC", "Z", "GMT"}, f[n-1])) {
		zone, f = f[n-1], f[:n-1]
		if zone == "Z" {
			zone = "UTC"
		}
	}
	if zone == "" && t.zone == "" {
		t.say(Differs, "timezone", "without a zone behind it the expression is read in that of the Ruby process, which the file does not name: UTC is assumed; --timezone says another")
	}
	if len(f) > 0 && !strings.HasPrefix(f[0], "@") && (len(f) < 5 || len(f) > 6) {
		t.say(LeftOut, "schedule", "%q is natural language or not five or six fields; write it as a cron expression", shorten(expression, 60))
		return false
	}
	return t.cron(strings.Join(f, " "), zone, schedule.Either)
}
