package importer

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
)

// Celery reads schedules of Celery beat: dumps of django-celery-beat (manage.py dumpdata django_celery_beat), or
// beat_schedule as JSON or YAML.
type Celery struct {
	Timezone string // of the app; "": unknown
	Tag      string // that the jobs get; "": none
}

// rows holds the tables of django-celery-beat, by model and key.
type rows map[string]map[string]map[string]json.RawMessage

// Read reads a schedule.
func (c Celery) Read(data []byte) (Imported, error) {
	s := &tasks{zone: c.Timezone, tag: c.Tag}
	err := s.parsed(data, func(doc json.RawMessage) {
		var list []json.RawMessage
		if json.Unmarshal(doc, &list) == nil {
			s.dumped(list)
			return
		}
		o := object(doc)
		path := ""
		if inner := object(o["beat_schedule"]); inner != nil {
			o, path = inner, "beat_schedule."
		}
		for _, name := range names(o) {
			s.beat(name, object(o[name]), path+name)
		}
	})
	if len(s.out.Jobs) > 0 {
		s.tell(0, "", Differs, "task", "a Celery task does not run here: each job wants a handler of its kind, in a worker of any language (docs/guides/workers.md); its payload has args and kwargs")
		s.tell(0, "", Differs, "retry", "whether a task is tried again its code says there; here retry_policy does: it is not, until that is set")
		s.tell(0, "", Note, "missed", "beat fires once for what it missed while it was down; so do these jobs (catch_up latest)")
	}
	return s.out, err
}

// dumped reads the rows of django-celery-beat.
func (s *tasks) dumped(list []json.RawMessage) {
	all := rows{}
	type at struct {
		fields map[string]json.RawMessage
		path   string
	}
	var periodic []at
	for i, one := range list {
		o := object(one)
		model := strings.TrimPrefix(strings.ToLower(text(o, "model")), "django_celery_beat.")
		fields := object(o["fields"])
		if model == "periodictask" {
			periodic = append(periodic, at{fields, "[" + strconv.Itoa(i) + "]"})
			continue
		}
		if all[model] == nil {
			all[model] = map[string]map[string]json.RawMessage{}
		}
		all[model][text(o, "pk")] = fields
	}
	if len(periodic) == 0 {
		s.tell(0, "", LeftOut, "file", "there is no django_celery_beat.periodictask in it")
	}
	for _, p := range periodic {
		s.periodic(p.fields, all, p.path)
	}
}

func (s *tasks) periodic(o map[string]json.RawMessage, all rows, path string) {
	name := text(o, "name")
	if strings.HasPrefix(text(o, "task"), "celery.backend_cleanup") {
		return // of Celery itself
	}
	t := s.task(name, path, "From Celery beat.")
	if d := text(o, "description"); d != "" {
		t.job.Description = shorten(d, 1000)
	}
	ok := false
	switch {
	case text(o, "crontab") != "":
		c := all["crontabschedule"][text(o, "crontab")]
		ok = c != nil && t.crontab(c, text(c, "timezone"))
	case text(o, "interval") != "":
		i := all["intervalschedule"][text(o, "interval")]
		n, _ := strconv.ParseInt(text(i, "every"), 10, 32)
		unit := map[string]time.Duration{"days": 24 * time.Hour, "hours": time.Hour, "minutes": time.Minute, "seconds": time.Second}[text(i, "period")]
		ok = i != nil && t.beatEvery(time.Duration(n)*unit)
	case text(o, "clocked") != "":
		at, err := time.Parse(time.RFC3339, text(all["clockedschedule"][text(o, "clocked")], "clocked_time"))
		if ok = err == nil; ok {
			t.job.Schedule = &client.Schedule{Type: "ONE_TIME", ScheduledTime: &at}
		}
	case text(o, "solar") != "":
		t.say(LeftOut, "schedule", "sunrise and sunset have no counterpart")
		return
	}
	if !ok {
		t.say(LeftOut, "schedule", "its schedule is not in the file, or is not accepted")
		return
	}
	payload := map[string]any{"args": inner(o, "args", []any{}), "kwargs": inner(o, "kwargs", map[string]any{})}
	if !t.handled(text(o, "task"), payload) {
		return
	}
	t.beatOptions(o)
	if truth(o, "one_off", false) && t.job.Schedule.Type != "ONE_TIME" {
		t.job.Schedule.MaxRuns = new(int64(1))
	}
	if at, err := time.Parse(time.RFC3339, text(o, "start_time")); err == nil && t.job.Schedule.Type != "ONE_TIME" {
		t.job.Schedule.StartAt = &at
	}
	if !truth(o, "enabled", true) {
		t.job.Paused = new(true)
	}
	t.done()
}

// inner decodes JSON that is written as a string.
func inner(o map[string]json.RawMessage, name string, otherwise any) any {
	var v any
	if json.Unmarshal([]byte(text(o, name)), &v) != nil || v == nil {
		if json.Unmarshal(o[name], &v) != nil || v == nil {
			return otherwise
		}
		if _, ok := v.(string); ok {
			return otherwise
		}
	}
	return v
}

// beat reads an entry of beat_schedule.
func (s *tasks) beat(name string, o map[string]json.RawMessage, path string) {
	if o["task"] == nil && o["schedule"] == nil {
		s.tell(s.doc.LineOf(path), "", LeftOut, "entry", "%s is no entry of beat_schedule: it has no task", shorten(name, 60))
		return
	}
	t := s.task(name, path, "From Celery beat.")
	sched := object(o["schedule"])
	if c := object(sched["crontab"]); c != nil {
		sched = c
	}
	ok := false
	if sched != nil {
		ok = t.crontab(sched, text(sched, "timezone"))
	} else if d, err := span(text(o, "schedule")); err == nil {
		ok = t.beatEvery(d)
	} else {
		t.say(LeftOut, "schedule", "%v", err)
	}
	if !ok || !t.handled(text(o, "task"), map[string]any{"args": inner(o, "args", []any{}), "kwargs": inner(o, "kwargs", map[string]any{})}) {
		return
	}
	t.beatOptions(object(o["options"]))
	if truth(o, "relative", false) {
		t.say(Differs, "relative", "intervals are not rounded to the clock here")
	}
	t.done()
}

func (t *task) beatEvery(d time.Duration) bool {
	if !t.every(d) {
		return false
	}
	t.say(Differs, "schedule", "it keeps to a grid from when it is applied; beat counts from when it last sent it")
	return true
}

// crontab converts the fields of a Celery crontab.
func (t *task) crontab(o map[string]json.RawMessage, zone string) bool {
	field := func(name string) string {
		s := strings.ReplaceAll(text(o, name), " ", "")
		if s == "" {
			return "*"
		}
		return s
	}
	if zone == "" && t.zone == "" {
		t.say(Differs, "timezone", "without a timezone Celery uses that of its app, UTC unless it says another: UTC is assumed; --timezone says another")
	}
	t.job.RetryPolicy = &client.RetryPolicy{MaxRetries: new(0)}
	return t.cron(strings.Join([]string{field("minute"), field("hour"), field("day_of_month"), field("month_of_year"), field("day_of_week")}, " "), zone, schedule.Both)
}

// beatOptions converts the options of a task.
func (t *task) beatOptions(o map[string]json.RawMessage) {
	t.job.RetryPolicy = &client.RetryPolicy{MaxRetries: new(0)}
	t.queue(text(o, "queue"))
	for _, field := range []string{"expires", "expire_seconds"} {
		limit := text(o, field)
		if limit == "" {
			continue
		}
		switch d, err := span(limit); {
		case err == nil && d >= time.Second:
			t.job.ExpiresAfter = new(d.Truncate(time.Second).String())
		case err == nil:
			t.say(LeftOut, field, "%s: executions that wait expire after a second or more", shorten(limit, 40))
		default:
			t.say(LeftOut, field, "the time after which it is not sent any more; set schedule.end_at")
		}
	}
	t.without(o, [][2]string{
		{"priority", "which end of the scale is urgent depends on the broker there; here 1 is: set priority"}, {"exchange", "there is no exchange; a queue is chosen by name"},
		{"routing_key", "there is no routing key; a queue is chosen by name"}, {"headers", "headers of a task: put them into the payload"},
	})
}
