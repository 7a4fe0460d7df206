package importer

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
)

// Dkron reads jobs of Dkron: the response of GET /v1/jobs, or one job.
type Dkron struct {
	Timezone string // of its servers; "": unknown
	Tag      string // that the jobs get; "": none
}

// Read reads jobs of Dkron.
func (d Dkron) Read(data []byte) (Imported, error) {
	s := &tasks{zone: d.Timezone, tag: d.Tag}
	err := s.parsed(data, func(doc json.RawMessage) {
		var list []json.RawMessage
		if json.Unmarshal(doc, &list) != nil {
			s.dkron(object(doc), "")
			return
		}
		for i, one := range list {
			s.dkron(object(one), "["+strconv.Itoa(i)+"]")
		}
	})
	if len(s.out.Jobs) > 0 {
		s.tell(0, "", Differs, "nodes", "Dkron runs a job on the nodes that its tags choose, on all of them where no number is named; here one worker runs it, chosen by labels and queues")
		s.tell(0, "", Note, "missed", "Dkron leaves out what it missed; so do these jobs (catch_up none)")
	}
	return s.out, err
}

func (s *tasks) dkron(o map[string]json.RawMessage, path string) {
	name := text(o, "name")
	if name == "" {
		s.tell(s.doc.LineOf(path), "", LeftOut, "job", "it has no name, so it is no job of Dkron")
		return
	}
	t := s.task(name, path, "From Dkron.")
	if display := text(o, "displayname"); display != "" {
		t.job.Name = nameText(display, *t.job.Key)
	}
	t.job.CatchUp = new("none")
	if !t.dkronSchedule(o) || !t.dkronTarget(text(o, "executor"), object(o["executor_config"])) {
		return
	}
	if owner := text(o, "owner"); owner != "" {
		t.job.Owner = new(nameText(owner, owner))
	}
	if text(o, "concurrency") == "forbid" {
		t.job.Overlap = new("skip")
	}
	retries, _ := strconv.Atoi(text(o, "retries"))
	t.job.RetryPolicy = &client.RetryPolicy{MaxRetries: new(min(max(retries, 0), 100))}
	if retries > 0 {
		t.say(Differs, "retries", "Dkron tries again at once; here the first retry waits a second, and each twice as long as the one before")
	}
	if truth(o, "disabled", false) {
		t.job.Paused = new(true)
	}
	t.without(o, [][2]string{
		{"parent_job", "it ran after another job; that is not taken over"}, {"ephemeral", "it was deleted after its first success; set max_runs to let it fire once"},
		{"processors", "where its output goes is not chosen: it is the log of each attempt"},
	})
	for _, tag := range names(object(o["tags"])) {
		t.say(LeftOut, "tags", "the nodes with %s=%s: set labels, and start workers with them", tag, text(object(o["tags"]), tag))
	}
	t.done()
}

// dkronSchedule converts the schedule of a job.
func (t *task) dkronSchedule(o map[string]json.RawMessage) bool {
	expression, zone := text(o, "schedule"), text(o, "timezone")
	switch {
	case strings.HasPrefix(expression, "@at "):
		at, err := time.Parse(time.RFC3339, strings.TrimSpace(strings.TrimPrefix(expression, "@at ")))
		if err != nil {
			t.say(LeftOut, "schedule", "%s names no time", shorten(expression, 60))
			return false
		}
		t.job.Schedule = &client.Schedule{Type: "ONE_TIME", ScheduledTime: &at}
		t.say(Note, "schedule", "a time that is over by the time it is applied fires at once")
	case strings.HasPrefix(expression, "@every "):
		d, err := time.ParseDuration(strings.TrimSpace(strings.TrimPrefix(expression, "@every ")))
		if err != nil {
			t.say(LeftOut, "schedule", "%s names no duration such as 90s or 1h30m", shorten(expression, 60))
			return false
		}
		if !t.every(d) {
			return false
		}
	case expression == "@manually" || expression == "":
		t.say(LeftOut, "schedule", "it fires only when it is asked to; here a job without a schedule runs at once when it is applied, so it is not imported")
		return false
	case expression == "@minutely":
		return t.cron("* * * * *", zone, schedule.Either)
	default:
		if zone == "" && t.zone == "" {
			t.say(Differs, "timezone", "without timezone Dkron uses that of its servers, which the file does not name: UTC is assumed; --timezone says another")
		}
		if !t.cron(expression, zone, schedule.Either) {
			return false
		}
	}
	bounds := []struct {
		name string
		at   **time.Time
	}{{"starts_at", &t.job.Schedule.StartAt}, {"expires_at", &t.job.Schedule.EndAt}}
	for _, b := range bounds {
		if at, err := time.Parse(time.RFC3339, text(o, b.name)); err == nil && t.job.Schedule.Type != "ONE_TIME" {
			*b.at = &at
		}
	}
	return true
}

// dkronTarget converts the target of a job.
func (t *task) dkronTarget(executor string, c map[string]json.RawMessage) bool {
	switch executor {
	case "http":
		return t.dkronHTTP(c)
	case "shell", "":
		return t.dkronShell(c)
	}
	t.say(LeftOut, "executor", "the executor %s has no counterpart; a handler of your own (target worker) can do what it did", shorten(executor, 40))
	return false
}

func (t *task) dkronShell(c map[string]json.RawMessage) bool {
	command := text(c, "command")
	if command == "" {
		t.say(LeftOut, "executor_config", "it has no command")
		return false
	}
	x := client.Target{Target: "command", Command: []string{"/bin/sh", "-c", command}, TimeoutSeconds: new(int64(longest))}
	if !truth(c, "shell", false) {
		t.say(Note, "shell", "Dkron parts the command into words by itself; here a shell does, to which $ and * mean something")
	}
	if cwd := text(c, "cwd"); cwd != "" {
		x.Command = []string{"/bin/sh", "-c", "cd " + quote(cwd) + " && " + command}
	}
	for pair := range strings.SplitSeq(text(c, "env"), ",") {
		if name, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && name != "" {
			if x.Env == nil {
				x.Env = map[string]string{}
			}
			x.Env[name] = value
		}
	}
	t.timeout(&x, c)
	t.job.Execution = x
	t.say(Differs, "target", "the command runs on a worker, which must have the program and allow commands (--allow-commands)")
	return true
}

func (t *task) timeout(x *client.Target, c map[string]json.RawMessage) {
	if limit := text(c, "timeout"); limit != "" {
		if d, err := span(limit); err == nil && d >= time.Second {
			x.TimeoutSeconds = new(min(int64(d/time.Second), int64(longest)))
		}
	}
}

func (t *task) dkronHTTP(c map[string]json.RawMessage) bool {
	x := client.Target{Target: "http", CallbackURL: text(c, "url"), Method: strings.ToUpper(text(c, "method"))}
	if x.Method == "" {
		x.Method = http.MethodGet
	}
	if !strings.HasPrefix(x.CallbackURL, "http://") && !strings.HasPrefix(x.CallbackURL, "https://") || !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}, x.Method) {
		t.say(LeftOut, "executor_config", "%s %s cannot be called", shorten(x.Method, 10), shorten(x.CallbackURL, 80))
		return false
	}
	x.TimeoutSeconds = new(int64(30))
	t.timeout(&x, c)
	var headers []string
	if json.Unmarshal([]byte(text(c, "headers")), &headers) == nil {
		for _, h := range headers {
			if name, value, ok := strings.Cut(h, ":"); ok && strings.TrimSpace(name) != "" {
				if x.Headers == nil {
					x.Headers = map[string]string{}
				}
				x.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
	}
	if body := text(c, "body"); body != "" {
		if json.Valid([]byte(body)) {
			x.Payload = json.RawMessage(body)
		} else {
			t.say(LeftOut, "body", "it is no JSON, and a callback sends JSON")
		}
	}
	for code := range strings.SplitSeq(text(c, "expectCode"), ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(code)); err == nil && n >= 100 && n <= 599 {
			if x.Expect == nil {
				x.Expect = &client.Expect{}
			}
			x.Expect.Status = append(x.Expect.Status, n)
		}
	}
	if pattern := text(c, "expectBody"); pattern != "" {
		t.say(Differs, "expectBody", "it was a regular expression; here an answer must contain a text: set expect.body_contains")
	}
	for _, field := range []string{"tlsNoVerifyPeer", "tlsCertificateFile", "tlsRootCAsFile"} {
		if v := text(c, field); v != "" && v != "false" {
			t.say(LeftOut, field, "certificates are checked against those that the worker's system trusts")
		}
	}
	t.job.Execution = x
	t.say(Note, "target", "private addresses are not called unless they are allowed (--allow-callback)")
	return true
}
