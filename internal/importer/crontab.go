package importer

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/declare"
)

// Crontab reads crontabs.
type Crontab struct {
	System   bool   // lines name a user after their schedule, as in /etc/crontab
	Timezone string // of the machine it comes from; "": unknown
	Tag      string // that the jobs get; "": none
}

var setting = regexp.MustCompile(`^\s*("[^"]*"|'[^']*'|[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)

// lines reads one crontab.
type lines struct {
	maker
	Crontab
	env    map[string]string
	zone   string // CRON_TZ
	delay  int    // RANDOM_DELAY, in minutes
	mail   *string
	mailed bool // it was reported that mail goes nowhere
}

// Read reads a crontab.
func (c Crontab) Read(data []byte) Imported {
	l := &lines{maker: maker{keys: map[string]bool{}}, Crontab: c, env: map[string]string{}}
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		l.line(n, s.Text())
	}
	if err := s.Err(); err != nil {
		l.tell(0, "", LeftOut, "file", "the rest of the file cannot be read: %v", err)
	}
	if len(l.out.Jobs) > 0 {
		l.common()
	}
	return l.out
}

// common reports the differences that every job of a crontab has.
func (l *lines) common() {
	if l.Timezone == "" && l.zone == "" {
		l.tell(0, "", Differs, "timezone", "cron reads times in the zone of its machine, which the file does not name: UTC is assumed; --timezone says another")
	}
	l.tell(0, "", Differs, "target", "commands run on a worker, not on this machine: the programs and files they name must be there, and commands must be allowed (--allow-commands)")
	l.tell(0, "", Differs, "folder", "cron starts a command in its user's home; here it has an empty folder of its own, and HOME is not set unless the crontab sets it")
	l.tell(0, "", Note, "environment", "only PATH (cron's, /usr/bin:/bin, unless the crontab sets it), SHELL and what the crontab sets is in the environment; LOGNAME and USER are not")
	l.tell(0, "", Note, "timeout", "cron never ends a command; here one is ended after 7 days, the longest there is (timeout_seconds)")
	l.tell(0, "", Note, "retries", "as with cron nothing is tried again (max_retries 0), and what was missed while nobody ran is not caught up with (catch_up none)")
}

func (l *lines) line(n int, text string) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] == '#' {
		return
	}
	if set := setting.FindStringSubmatch(text); set != nil {
		l.set(n, unquote(set[1]), unquote(strings.TrimSpace(set[2])))
		return
	}
	expression, rest, ok := l.split(text)
	if !ok {
		l.tell(n, "", LeftOut, "line", "it is neither a setting nor a schedule with a command: %s", shorten(text, 80))
		return
	}
	user := ""
	if l.System {
		user, rest, _ = cutField(rest)
	}
	if rest == "" {
		l.tell(n, "", LeftOut, "line", "it has no command: %s", shorten(text, 80))
		return
	}
	l.job(n, expression, user, rest)
}

// set applies a setting to the lines after it.
func (l *lines) set(n int, name, value string) {
	switch name {
	case "CRON_TZ":
		l.zone = value
	case "MAILTO":
		l.mail = &value
	case "RANDOM_DELAY":
		minutes, err := strconv.Atoi(value)
		if err != nil || minutes < 0 || minutes > 1440 {
			l.tell(n, "", LeftOut, "RANDOM_DELAY", "%q is not a number of minutes", value)
			return
		}
		l.delay = minutes
	case "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		l.tell(n, "", LeftOut, name, "output is not mailed, but kept as the log of each attempt")
	default:
		if name == "TZ" {
			l.tell(n, "", Note, "TZ", "it is set for the commands; as with cron it does not move the schedule, which CRON_TZ does")
		}
		l.env = maps.Clone(l.env)
		l.env[name] = value
	}
}

// split splits a line into its schedule and the rest.
func (l *lines) split(text string) (expression, rest string, ok bool) {
	if text[0] == '@' {
		return cutField(text)
	}
	rest = text
	var fields []string
	for range 5 {
		var f string
		if f, rest, ok = cutField(rest); !ok {
			return "", "", false
		}
		fields = append(fields, f)
	}
	return strings.Join(fields, " "), rest, true
}

func cutField(s string) (first, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, "", s != ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t"), true
}

// job makes a job of a line.
func (l *lines) job(n int, expression, user, command string) {
	if strings.HasPrefix(expression, "@") {
		if strings.EqualFold(expression, "@reboot") {
			l.tell(n, "", LeftOut, "@reboot", "nothing fires when a machine starts; let the machine start it (systemd), or trigger a job from there: %s", shorten(command, 80))
			return
		}
		expression = strings.ToLower(expression)
	}
	zone := strings.TrimSpace(l.zone)
	if zone == "" {
		zone = l.Timezone
	}
	if _, err := schedule.NewCache(time.LoadLocation).Cron(expression, zone, schedule.Vixie); err != nil {
		l.tell(n, "", LeftOut, "schedule", "%s is not accepted: %v", shorten(expression, 60), err)
		return
	}
	run, input, piped := splitPercent(command)
	shell := l.env["SHELL"]
	if shell == "" {
		shell = "/bin/sh"
	}
	env := maps.Clone(l.env)
	if env["PATH"] == "" {
		env["PATH"] = "/usr/bin:/bin"
	}
	env["SHELL"] = shell
	if strings.TrimSpace(run) == "" {
		l.tell(n, "", LeftOut, "line", "it has no command before the first %%: %s", shorten(command, 80))
		return
	}
	key := l.key(nameOf(run))
	if piped && input != "" { // nothing after % means no input
		l.tell(n, key, Note, "%", "what stands behind %% is the command's standard input, as with cron; it is piped into it")
		run = "printf '%s' " + quote(input) + " | { " + run + "\n}"
	}
	j := declare.Job{JobRequest: client.JobRequest{
		Key: &key, Name: shorten(command, 200), Description: fmt.Sprintf("Line %d of a crontab.", n), CatchUp: new("none"),
		Schedule:    &client.Schedule{Type: "CRON", CronExpression: &expression},
		Execution:   client.Target{Target: "command", Command: []string{shell, "-c", run}, Env: env, TimeoutSeconds: new(int64(longest))},
		RetryPolicy: &client.RetryPolicy{MaxRetries: new(0)},
	}}
	if zone != "" {
		j.Schedule.Timezone = &zone
	}
	if l.delay > 0 {
		j.Schedule.JitterMS = new(int64(l.delay) * 60_000)
		l.tell(n, key, Differs, "RANDOM_DELAY", "the delay of up to %d minutes is the same every time for one instant, not drawn anew", l.delay)
	}
	if l.Tag != "" {
		j.Tags = []string{l.Tag}
	}
	if user != "" {
		l.tell(n, key, Differs, "user", "it ran as %s; here commands run as the worker's user, or the one of commands.user", user)
	}
	l.told(n, key, expression)
	l.out.Jobs = append(l.out.Jobs, j)
}

// told reports the other differences of a line.
func (l *lines) told(n int, key, expression string) {
	if fields := strings.Fields(expression); len(fields) == 5 && fields[2] != "*" && fields[4] != "*" {
		how := "fires on a day that either of the two day fields names"
		if fields[2][0] == '*' || fields[4][0] == '*' {
			how = "fires on a day that both day fields name, since one begins with *"
		}
		l.tell(n, key, Note, "days", "it %s, as with Vixie cron (day: vixie)", how)
	}
	if !l.mailed && (l.mail == nil || *l.mail != "") {
		l.mailed = true
		to := "the owner of the crontab"
		if l.mail != nil {
			to = *l.mail
		}
		l.tell(n, "", Differs, "MAILTO", "output was mailed to %s; here it is the log of each attempt, and a notification rule tells of failures", to)
	}
}

// splitPercent splits a command at the first % that is not escaped: the rest is its standard input, in which further
// ones are line breaks, and which ends with one.
func splitPercent(s string) (run, input string, piped bool) {
	var parts []string
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '%':
			b.WriteByte('%')
			i++
		case s[i] == '%':
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteByte(s[i])
		}
	}
	parts = append(parts, b.String())
	if len(parts) == 1 {
		return parts[0], "", false
	}
	if input = strings.Join(parts[1:], "\n"); input != "" && !strings.HasSuffix(input, "\n") {
		input += "\n"
	}
	return parts[0], input, true
}

// nameOf returns the name of the program that a command line runs.
func nameOf(command string) string {
	skip := false
	for _, w := range strings.Fields(command) {
		if skip || w == "cd" {
			skip = !skip // what it goes to says little
			continue
		}
		if strings.Contains(w, "=") || w == "exec" || w == "nice" || w == "env" || w == "&&" || strings.HasPrefix(w, "-") {
			continue
		}
		return strings.TrimSuffix(path.Base(strings.Trim(w, `"'();`)), path.Ext(w))
	}
	return "job"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}
