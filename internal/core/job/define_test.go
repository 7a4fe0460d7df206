package job

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func good() Definition {
	return Definition{
		Name: "n", Priority: 5, Queue: DefaultQueue, Schedule: Schedule{Type: Immediate}, Retry: DefaultRetry,
		Target: Target{Kind: HTTP, URL: "https://example.com/x", Method: "POST", Timeout: DefaultTimeout},
	}
}

func TestCheckAccepts(t *testing.T) {
	for name, change := range map[string]func(*Definition){
		"the least":           func(*Definition) {},
		"a long name":         func(d *Definition) { d.Name = strings.Repeat("é", 255) },
		"emoji":               func(d *Definition) { d.Name = "🔔 ring" },
		"a key":               func(d *Definition) { d.Key = "a.b_c-9" },
		"one time":            func(d *Definition) { d.Schedule = Schedule{Type: OneTime, At: at} },
		"the year 2000":       func(d *Definition) { d.Schedule = Schedule{Type: OneTime, At: earliest} },
		"the year 9999":       func(d *Definition) { d.Schedule = Schedule{Type: OneTime, At: latest.Add(-1)} },
		"a port":              func(d *Definition) { d.Target.URL = "http://127.0.0.1:65535/" },
		"IPv6":                func(d *Definition) { d.Target.URL = "http://[::1]:80/a?b=c" },
		"headers":             func(d *Definition) { d.Target.Headers = map[string]string{"X-A": "b\tc", "Authorization": "Bearer x"} },
		"simulate":            func(d *Definition) { d.Target = Target{Kind: Simulate, WorkKind: "noop", Timeout: time.Second} },
		"a handler":           func(d *Definition) { d.Target = Target{Kind: Handler, Handler: "send:email", Timeout: time.Second} },
		"a queue and labels":  func(d *Definition) { d.Queue = "slow"; d.Labels = []string{"gpu", "eu/west"} },
		"no retries":          func(d *Definition) { d.Retry = RetryPolicy{Backoff: Fixed} },
		"line breaks in text": func(d *Definition) { d.Description = "a\nb\tc" },
		"manual":              func(d *Definition) { d.Schedule = Schedule{Type: Manual} },
		"a workflow":          func(d *Definition) { d.Target = Target{Kind: Workflow, Version: 1} },
		"expectations":        func(d *Definition) { d.Target.ExpectStatus = []int{200, 404}; d.Target.ExpectBody = "ok" },
	} {
		t.Run(name, func(t *testing.T) {
			d := good()
			change(&d)
			if v := d.Check(); len(v) > 0 {
				t.Errorf("refused: %v", v)
			}
		})
	}
}

func run(args ...string) Target { return Target{Kind: Command, Command: args, Timeout: time.Second} }

func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		field  string
		change func(*Definition)
	}{
		{"no name", "name", func(d *Definition) { d.Name = "" }},
		{"a manual job at an instant", "schedule.scheduled_time", func(d *Definition) { d.Schedule = Schedule{Type: Manual, At: at} }},
		{"a manual job with a cron expression", "schedule.cron_expression", func(d *Definition) { d.Schedule = Schedule{Type: Manual, Cron: "* * * * *"} }},
		{"a manual job with jitter", "schedule.jitter_ms", func(d *Definition) { d.Schedule = Schedule{Type: Manual, Jitter: time.Second} }},
		{"a workflow without a definition", "execution.target", func(d *Definition) { d.Target = Target{Kind: Workflow} }},
		{"a blank name", "name", func(d *Definition) { d.Name = "  " }},
		{"a name too long", "name", func(d *Definition) { d.Name = strings.Repeat("é", 256) }},
		{"a line break in the name", "name", func(d *Definition) { d.Name = "a\nb" }},
		{"NUL in the name", "name", func(d *Definition) { d.Name = "a\x00" }},
		{"broken UTF-8", "name", func(d *Definition) { d.Name = "a\xff" }},
		{"C1 control", "name", func(d *Definition) { d.Name = "a\u0085b" }},
		{"a key in capitals", "key", func(d *Definition) { d.Key = "A" }},
		{"a key that begins with a dash", "key", func(d *Definition) { d.Key = "-a" }},
		{"a key too long", "key", func(d *Definition) { d.Key = strings.Repeat("a", 129) }},
		{"control in the description", "description", func(d *Definition) { d.Description = "a\x1b[31m" }},
		{"a long description", "description", func(d *Definition) { d.Description = strings.Repeat("a", 10_001) }},
		{"owner", "owner", func(d *Definition) { d.Owner = "a\n" }},
		{"runbook", "runbook", func(d *Definition) { d.Runbook = strings.Repeat("a", 2049) }},
		{"priority 0", "priority", func(d *Definition) { d.Priority = 0 }},
		{"priority 11", "priority", func(d *Definition) { d.Priority = 11 }},
		{"too many tags", "tags", func(d *Definition) { d.Tags = make([]string, 51) }},
		{"an empty tag", "tags[0]", func(d *Definition) { d.Tags = []string{""} }},
		{"a tag twice", "tags[1]", func(d *Definition) { d.Tags = []string{"a", "a"} }},
		{"no instant", "schedule.scheduled_time", func(d *Definition) { d.Schedule = Schedule{Type: OneTime} }},
		{"1999", "schedule.scheduled_time", func(d *Definition) { d.Schedule = Schedule{Type: OneTime, At: earliest.Add(-1)} }},
		{"10000", "schedule.scheduled_time", func(d *Definition) { d.Schedule = Schedule{Type: OneTime, At: latest} }},
		{"an instant for at once", "schedule.scheduled_time", func(d *Definition) { d.Schedule = Schedule{Type: Immediate, At: at} }},
		{"no expression", "schedule.cron_expression", func(d *Definition) { d.Schedule = Schedule{Type: Cron} }},
		{"an expression for an interval", "schedule.cron_expression", func(d *Definition) { d.Schedule = Schedule{Type: Interval, Every: time.Minute, Cron: "* * * * *"} }},
		{"an expression for at once", "schedule.cron_expression", func(d *Definition) { d.Schedule = Schedule{Type: Immediate, Cron: "* * * * *"} }},
		{"no interval", "schedule.every", func(d *Definition) { d.Schedule = Schedule{Type: Interval} }},
		{"the end before the start", "schedule.end_at", func(d *Definition) { d.Schedule = Schedule{Type: Cron, Cron: "* * * * *", Start: at, End: at} }},
		{"less than no runs", "schedule.max_runs", func(d *Definition) { d.Schedule = Schedule{Type: Cron, Cron: "* * * * *", MaxRuns: -1} }},
		{"a long jitter", "schedule.jitter_ms", func(d *Definition) { d.Schedule = Schedule{Type: Cron, Cron: "* * * * *", Jitter: 25 * time.Hour} }},
		{"an odd calendar", "schedule.calendar", func(d *Definition) { d.Schedule = Schedule{Type: Cron, Cron: "* * * * *", Calendar: "A B"} }},
		{"an unknown overlap", "overlap", func(d *Definition) { d.Overlap = "pile" }},
		{"an unknown catch-up", "catch_up", func(d *Definition) { d.CatchUp = "some" }},
		{"too much to catch up", "catch_up_limit", func(d *Definition) { d.CatchUpLimit = 1001 }},
		{"overlap and key", "overlap", func(d *Definition) { d.Overlap, d.ConcurrencyKey, d.MaxConcurrent = OverlapQueue, "payload.x", 1 }},
		{"no type", "schedule.type", func(d *Definition) { d.Schedule = Schedule{} }},
		{"no target", "execution.target", func(d *Definition) { d.Target.Kind = "ftp" }},
		{"no command", "execution.command", func(d *Definition) { d.Target = Target{Kind: Command, Timeout: time.Second} }},
		{"a command with a URL", "execution.callback_url", func(d *Definition) { d.Target.Kind, d.Target.Command = Command, []string{"x"} }},
		{"a URL with a command", "execution.command", func(d *Definition) { d.Target.Command = []string{"x"} }},
		{"a blank program", "execution.command[0]", func(d *Definition) { d.Target = run(" ") }},
		{"NUL in an argument", "execution.command[1]", func(d *Definition) { d.Target = run("x", "a\x00b") }},
		{"a long argument", "execution.command[1]", func(d *Definition) { d.Target = run("x", strings.Repeat("a", maxArg+1)) }},
		{"too many arguments", "execution.command", func(d *Definition) { d.Target = run(make([]string, maxArgs+1)...) }},
		{"too much in all", "execution.command", func(d *Definition) { d.Target = run(slices.Repeat([]string{strings.Repeat("a", maxArg)}, 9)...) }},
		{"an odd artifact", "execution.artifact_id", func(d *Definition) { d.Target = run("x"); d.Target.Artifact = "../" + strings.Repeat("a", 61) }},
		{"an entrypoint alone", "execution.entrypoint", func(d *Definition) { d.Target = run("x"); d.Target.Entrypoint = "a" }},
		{"an entrypoint that leads out", "execution.entrypoint", func(d *Definition) {
			d.Target = run()
			d.Target.Artifact, d.Target.Entrypoint = strings.Repeat("a", 64), "bin/../../x"
		}},
		{"an absolute entrypoint", "execution.entrypoint", func(d *Definition) {
			d.Target = run()
			d.Target.Artifact, d.Target.Entrypoint = strings.Repeat("a", 64), "/bin/sh"
		}},
		{"an odd variable", `execution.env["1A"]`, func(d *Definition) { d.Target = run("x"); d.Target.Env = map[string]string{"1A": ""} }},
		{"our own variable", `execution.env["CARILLON_RESULT"]`, func(d *Definition) {
			d.Target = run("x")
			d.Target.Env = map[string]string{"CARILLON_RESULT": "/etc/x"}
		}},
		{"NUL in a variable", `execution.env["A"]`, func(d *Definition) { d.Target = run("x"); d.Target.Env = map[string]string{"A": "\x00"} }},
		{"no queue", "queue", func(d *Definition) { d.Queue = "" }},
		{"a bad queue", "queue", func(d *Definition) { d.Queue = "Slow One" }},
		{"a bad label", "labels[1]", func(d *Definition) { d.Labels = []string{"a", "b,c"} }},
		{"too many labels", "labels", func(d *Definition) { d.Labels = make([]string, 21) }},
		{"no kind", "execution.kind", func(d *Definition) { d.Target = Target{Kind: Handler, Timeout: time.Second} }},
		{"a bad kind", "execution.kind", func(d *Definition) { d.Target = Target{Kind: Handler, Handler: "a b", Timeout: time.Second} }},
		{"a kind with http", "execution.kind", func(d *Definition) { d.Target.Handler = "x" }},
		{"a URL with a handler", "execution.callback_url", func(d *Definition) {
			d.Target = Target{Kind: Handler, Handler: "x", URL: "http://h", Timeout: time.Second}
		}},
		{"no time", "execution.timeout_seconds", func(d *Definition) { d.Target.Timeout = 0 }},
		{"too much time", "execution.timeout_seconds", func(d *Definition) { d.Target.Timeout = maxTimeout + time.Second }},
		{"no URL", "execution.callback_url", func(d *Definition) { d.Target.URL = "" }},
		{"a path", "execution.callback_url", func(d *Definition) { d.Target.URL = "/x" }},
		{"another scheme", "execution.callback_url", func(d *Definition) { d.Target.URL = "file:///etc/passwd" }},
		{"no host", "execution.callback_url", func(d *Definition) { d.Target.URL = "http:///x" }},
		{"only a port", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://:80/x" }},
		{"a port too high", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://h:65536/" }},
		{"a port that is none", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://h:x/" }},
		{"a blank", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://h/a b" }},
		{"a line break", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://h/a\r\nX: y" }},
		{"a password", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://u:geheim@h/" }},
		{"a fragment", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://h/#a" }},
		{"a long URL", "execution.callback_url", func(d *Definition) { d.Target.URL = "http://h/" + strings.Repeat("a", 2048) }},
		{"a method", "execution.method", func(d *Definition) { d.Target.Method = "BREW" }},
		{"a header name", `execution.headers["a b"]`, func(d *Definition) { d.Target.Headers = map[string]string{"a b": ""} }},
		{"no header name", `execution.headers[""]`, func(d *Definition) { d.Target.Headers = map[string]string{"": ""} }},
		{"header injection", `execution.headers["X"]`, func(d *Definition) { d.Target.Headers = map[string]string{"X": "a\r\nY: b"} }},
		{"our header", `execution.headers["X-Job-ID"]`, func(d *Definition) { d.Target.Headers = map[string]string{"X-Job-ID": "a"} }},
		{"host", `execution.headers["host"]`, func(d *Definition) { d.Target.Headers = map[string]string{"host": "a"} }},
		{"a signature", `execution.headers["Webhook-Signature"]`, func(d *Definition) { d.Target.Headers = map[string]string{"Webhook-Signature": "a"} }},
		{"a header twice", `execution.headers["x-a"]`, func(d *Definition) { d.Target.Headers = map[string]string{"X-A": "1", "x-a": "2"} }},
		{"a status", "execution.expect.status[1]", func(d *Definition) { d.Target.ExpectStatus = []int{200, 600} }},
		{"a long expectation", "execution.expect.body_contains", func(d *Definition) { d.Target.ExpectBody = strings.Repeat("a", 1025) }},
		{"work with http", "execution.work_kind", func(d *Definition) { d.Target.WorkKind = "noop" }},
		{"a work kind", "execution.work_kind", func(d *Definition) { d.Target = Target{Kind: Simulate, WorkKind: "dance", Timeout: time.Second} }},
		{"negative work", "execution.duration_ms", func(d *Definition) {
			d.Target = Target{Kind: Simulate, WorkKind: "sleep", Duration: -1, Timeout: time.Second}
		}},
		{"a URL with simulate", "execution.callback_url", func(d *Definition) {
			d.Target = Target{Kind: Simulate, WorkKind: "noop", URL: "http://h", Timeout: time.Second}
		}},
		{"fail attempts", "execution.fail_attempts", func(d *Definition) {
			d.Target = Target{Kind: Simulate, WorkKind: "flaky", FailAttempts: -1, Timeout: time.Second}
		}},
		{"retries", "retry_policy.max_retries", func(d *Definition) { d.Retry.MaxRetries = 101 }},
		{"negative retries", "retry_policy.max_retries", func(d *Definition) { d.Retry.MaxRetries = -1 }},
		{"a backoff", "retry_policy.backoff", func(d *Definition) { d.Retry.Backoff = "SOMETIMES" }},
		{"a negative delay", "retry_policy.initial_delay_ms", func(d *Definition) { d.Retry.InitialDelay = -1 }},
		{"a cap below the start", "retry_policy.max_delay_ms", func(d *Definition) { d.Retry.MaxDelay = time.Millisecond }},
		{"a cap too high", "retry_policy.max_delay_ms", func(d *Definition) { d.Retry.MaxDelay = MaxRetryDelay + 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := good()
			c.change(&d)
			v := d.Check()
			found := false
			for _, x := range v {
				found = found || x.Field == c.field && x.Want != ""
				if strings.ContainsAny(x.Value, "\x00\n\r\x1b") || strings.Contains(x.Value, "geheim") {
					t.Errorf("the message repeats what it must not: %q", x.Value)
				}
			}
			if !found {
				t.Errorf("got %v, want a complaint about %s", v, c.field)
			}
			if v.Err() == nil || v.Error() == "" {
				t.Error("no error")
			}
		})
	}
}

func TestInvalids(t *testing.T) {
	var none Invalids
	if none.Err() != nil {
		t.Error("an empty list is an error")
	}
	v := Invalids{{Field: "a", Value: "b", Want: "c"}}.Under("x.")
	if v[0].Field != "x.a" || v.Error() != "x.a: b is not valid; want c" {
		t.Errorf("got %v", v)
	}
	if got := Show(strings.Repeat("ü", 200)); got != strings.Repeat("ü", 100)+"…" {
		t.Errorf("got %q", got)
	}
	if got := Show("a\u202eb\x07"); got != `a\u202eb\u0007` {
		t.Errorf("got %q", got)
	}
}
