package job

import (
	"strings"
	"testing"
)

func TestOrigin(t *testing.T) {
	for _, same := range [][2]string{
		{"https://a.example/x", "https://A.EXAMPLE:443/y?z=1"}, {"http://a.example", "http://a.example:80/"}, {"http://[::1]/a", "http://[::1]:80/b"}, {"HTTPS://a/", "https://a"},
	} {
		if a, b := Origin(same[0]), Origin(same[1]); a != b {
			t.Errorf("%s and %s: %s, %s", same[0], same[1], a, b)
		}
	}
	for _, other := range []string{"http://a.example/", "https://b.example/", "https://a.example:8443/", "https://a.example./", "https://a.example@b.example/", "https://sub.a.example/", "https://a.example.b/", "::"} {
		if Origin(other) == Origin("https://a.example/") {
			t.Errorf("%s is taken for https://a.example/", other)
		}
	}
}

func TestMoved(t *testing.T) {
	call := Definition{Target: Target{Kind: HTTP, URL: "https://a.example/x", Method: "POST", Headers: map[string]string{"X-A": "1"}}, Payload: []byte(`{}`)}
	run := Definition{Target: Target{Kind: Command, Command: []string{"report", "--day", "today"}, Env: map[string]string{"MODE": "x", "PGHOST": "db", "PGPASSWORD": "p", "TOKEN_URL": "u"}}, Payload: []byte(`{}`)}
	shell := Definition{Target: Target{Kind: Command, Command: []string{"/bin/bash"}}, Payload: []byte(`"true"`)}
	for name, c := range map[string]struct {
		was    Definition
		change func(*Definition)
		moved  string
	}{
		"a path":              {call, func(d *Definition) { d.Target.URL = "https://a.example:443/y?q=1" }, ""},
		"a method":            {call, func(d *Definition) { d.Target.Method = "PUT" }, ""},
		"a header":            {call, func(d *Definition) { d.Target.Headers = map[string]string{"X-B": "1"} }, ""},
		"redirects":           {call, func(d *Definition) { d.Target.FollowRedirects = true }, ""},
		"a callback's data":   {call, func(d *Definition) { d.Payload = []byte(`{"a":1}`) }, ""},
		"a host":              {call, func(d *Definition) { d.Target.URL = "https://b.example/x" }, "origin"},
		"a port":              {call, func(d *Definition) { d.Target.URL = "https://a.example:444/x" }, "origin"},
		"a scheme":            {call, func(d *Definition) { d.Target.URL = "http://a.example/x" }, "origin"},
		"a target":            {call, func(d *Definition) { d.Target.Kind = Handler }, "target"},
		"a name":              {run, func(d *Definition) { d.Name = "other" }, ""},
		"a mode":              {run, func(d *Definition) { d.Target.Env["MODE"] = "y" }, ""},
		"a password":          {run, func(d *Definition) { d.Target.Env["PGPASSWORD"] = "q" }, ""},
		"a mode less":         {run, func(d *Definition) { delete(d.Target.Env, "MODE") }, ""},
		"a command's data":    {run, func(d *Definition) { d.Payload = []byte(`{"a":1}`) }, ""},
		"a program":           {run, func(d *Definition) { d.Target.Command = []string{"env"} }, "program"},
		"an argument":         {run, func(d *Definition) { d.Target.Command = []string{"report", "--day", "env"} }, "arguments"},
		"an argument more":    {run, func(d *Definition) { d.Target.Command = append(d.Target.Command, "-v") }, "arguments"},
		"an artifact":         {run, func(d *Definition) { d.Target.Artifact = "5c" }, "program"},
		"an entrypoint":       {run, func(d *Definition) { d.Target.Entrypoint = "x" }, "program"},
		"a loader":            {run, func(d *Definition) { d.Target.Env["LD_PRELOAD"] = "x.so" }, "LD_PRELOAD"},
		"a shell's beginning": {run, func(d *Definition) { d.Target.Env["BASH_ENV"] = "$(env)" }, "BASH_ENV"},
		"a database":          {run, func(d *Definition) { d.Target.Env["PGHOST"] = "evil" }, "PGHOST"},
		"no database":         {run, func(d *Definition) { delete(d.Target.Env, "PGHOST") }, "PGHOST"},
		"a hidden address":    {run, func(d *Definition) { d.Target.Env["TOKEN_URL"] = "v" }, "TOKEN_URL"},
		"an address":          {run, func(d *Definition) { d.Target.Env["MODE"] = "https://evil" }, "MODE"},
		"a shell's input":     {shell, func(d *Definition) { d.Payload = []byte(`"env"`) }, "payload"},
	} {
		now := c.was
		now.Target.Env = map[string]string{}
		for k, v := range c.was.Target.Env {
			now.Target.Env[k] = v
		}
		now.Target.Command = append([]string(nil), c.was.Target.Command...)
		c.change(&now)
		if why := Moved(&c.was, &now); (why == "") != (c.moved == "") || !strings.Contains(why, c.moved) {
			t.Errorf("%s: %q, want %q", name, why, c.moved)
		}
	}
}

func TestPayloadIsProgram(t *testing.T) {
	for line, want := range map[string]bool{
		"bash": true, "/bin/sh": true, "sh -x": true, "sh -": true, "bash -s a": true, "python3.12": true, "python3 -": true, "env bash": true, "timeout 5 sh": true, "xargs echo": true, "psql shop": true, "nice -n 5 perl": true,
		"python3 /dev/stdin": true, "busybox sh": true,
		"sh -c x": false, "python3 -m report": false, "node app.js": false, "report": false, "echo bash-like": false, "/opt/sh/report": false,
	} {
		if got := (&Target{Kind: Command, Command: strings.Fields(line)}).PayloadIsProgram(); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	if (&Target{Kind: Command, Command: []string{"bash"}, Entrypoint: "run"}).PayloadIsProgram() || (&Target{Kind: HTTP}).PayloadIsProgram() {
		t.Error("an entrypoint's argument, or a callback, is taken for a shell")
	}
}
