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
	script := Definition{Target: Target{Kind: Command, Command: []string{"python3", "app.py"}}, Payload: []byte(`{}`)}
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
		"a mode":              {run, func(d *Definition) { d.Target.Env["MODE"] = "y" }, "MODE"},
		"flags of make":       {run, func(d *Definition) { d.Target.Env["MAKEFLAGS"] = "--eval=x" }, "MAKEFLAGS"},
		"a language":          {run, func(d *Definition) { d.Target.Env["LANG"] = "de_DE.UTF-8"; d.Target.Env["LC_TIME"] = "C" }, ""},
		"a time zone":         {run, func(d *Definition) { d.Target.Env["TZ"] = "Europe/Berlin" }, ""},
		"a file of zones":     {run, func(d *Definition) { d.Target.Env["TZ"] = ":/tmp/x" }, "TZ"},
		"a language's folder": {run, func(d *Definition) { d.Target.Env["LANG"] = "../../tmp/x" }, "LANG"},
		"code for a language": {run, func(d *Definition) { d.Target.Env["LC_ALL"] = "$(shell env)" }, "LC_ALL"},
		"a password more":     {run, func(d *Definition) { d.Target.Env["API_PASSWORD"] = "q" }, ""},
		"a password less":     {run, func(d *Definition) { delete(d.Target.Env, "PGPASSWORD") }, ""},
		"a password's source": {run, func(d *Definition) { d.Target.Env["RESTIC_PASSWORD_COMMAND"] = "env" }, "RESTIC_PASSWORD_COMMAND"},
		"a URL for a flag":    {run, func(d *Definition) { d.Target.Env["MAKEFLAGS"] = "--eval=x://a:b@c" }, "MAKEFLAGS"},
		"a password":          {run, func(d *Definition) { d.Target.Env["PGPASSWORD"] = "q" }, ""},
		"a mode less":         {run, func(d *Definition) { delete(d.Target.Env, "MODE") }, "MODE"},
		"a command's data":    {run, func(d *Definition) { d.Payload = []byte(`{"a":1}`) }, "payload"},
		"a script's data":     {script, func(d *Definition) { d.Payload = []byte(`{"a":1}`) }, ""},
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
		if why := Moved(&c.was, &now, func(name string) bool { return strings.Contains(name, "PASSWORD") }); (why == "") != (c.moved == "") || !strings.Contains(why, c.moved) {
			t.Errorf("%s: %q, want %q", name, why, c.moved)
		}
	}
}

func TestPayloadIsProgram(t *testing.T) {
	for line, want := range map[string]bool{
		"bash": true, "/bin/sh": true, "sh -x": true, "sh -": true, "bash -s a": true, "python3.12": true, "python3 -": true, "env bash": true, "timeout 5 sh": true, "xargs echo": true, "psql shop": true, "nice -n 5 perl": true,
		"python3 /dev/stdin": true, "busybox sh": true, "sh -c x": true, "python3 -m report": true, "bash -e x.sh": true, "bash x.sh -": true, "bash --rcfile x.sh": true, "node -r ./x.js": true, "ruby -r./x.rb": true,
		"make all": true, "gmake -f - all": true, "awk -f x.awk": true, "sed -f -": true, "sqlite3 data.db": true, "ssh host.example": true, "bc lib.bc": true, "R": true, "Rscript -": true, "m4 x.m4": true, "busybox-static": true,
		"sudo -u a.b bash": true, "env A=./x.sh bash": true, "env -S x": true, "nice /opt/wrap bash": true, "nohup /bin/bash": true, "timeout 5 report": true, "deno run x.ts": true, "luajit": true, "lua5.4": true, `C:\bin\Bash.EXE`: true,
		"php -r x": true, "bash /proc/self/fd/0": true, "bash /dev/../dev/stdin": true, "report at": true, "flock /x -c bash": true, "bash /bin/bash": true, "sh report": true,
		"curl -K -": true, "curl -K- https://a.example": true, "jq -f /dev/stdin": true, "jq .a": true, "git apply": true, "ftp": true, "report": true, "/opt/sh/report": true, "echo x": true, "env /opt/report": true, "nice -n 5 ./report.sh": true,
		"env A=b ./report.sh": true, "./report.sh -": true, "./report.sh /dev/stdin": true, "nice ./report.sh -c x": true, "env": true,
		"node app.js": false, "bash x.sh": false, "bash -x /opt/report a b": false, "python3 -u app.py": false, "./python_job.py": false, "report.sh --day today": false,
		"nice ./report.sh": false, "Rscript x.R": false, "bash deploy.sh env": false, "perl -w x.pl": false,
	} {
		if got := (&Target{Kind: Command, Command: strings.Fields(line)}).PayloadIsProgram(); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	for want, all := range map[bool][]Target{
		true:  {{Kind: Command, Entrypoint: "bin/bash"}, {Kind: Command, Entrypoint: "bin/report"}, {Kind: Command, Artifact: "5c"}, {Kind: Command, Entrypoint: "run.sh", Command: []string{"-"}}},
		false: {{Kind: HTTP}, {Kind: Command, Entrypoint: "run.sh", Command: []string{"bash"}}, {Kind: Command, Entrypoint: "bin/python3", Command: []string{"app.py"}}},
	} {
		for _, x := range all {
			if x.PayloadIsProgram() != want {
				t.Errorf("%+v: want %v", x, want)
			}
		}
	}
}
