package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// jobFlags holds the flags that define a job, for create and edit.
type jobFlags struct {
	s   *session
	set *pflag.FlagSet
}

// fields is a part of a request, by the names of the API.
type fields = map[string]any

func addJobFlags(s *session, c *cobra.Command) *jobFlags {
	f := c.Flags()
	f.SortFlags = false
	f.String("every", "", "run at this interval, such as 10s or 1h30m")
	f.String("cron", "", "run by a cron expression, such as '30 4 * * MON-FRI'")
	f.String("at", "", "run once at a time: 2026-01-31T15:04:05Z, '2026-01-31 15:04', 15:04, or +10m")
	f.String("tz", "", "time zone of --cron and --at, such as Europe/Berlin (default UTC for --cron, this machine's for --at)")
	f.String("calendar", "", "calendar of days and times to skip")
	f.Duration("jitter", 0, "delay each run by a random time up to this long")
	f.String("start-at", "", "do not run before this time")
	f.String("end-at", "", "do not run at or after this time")
	f.Int64("max-runs", 0, "maximum number of runs")

	f.String("http", "", "call this URL")
	f.String("method", "", "HTTP method (default POST)")
	f.StringArray("header", nil, "HTTP header, as 'Name: value' (repeatable); ${secret:name} inserts a secret")
	f.IntSlice("expect-status", nil, "HTTP statuses that count as success (default any 2xx)")
	f.String("command", "", "run this program with its arguments; or give them after --")
	f.String("artifact", "", "artifact that contains the program")
	f.String("entrypoint", "", "program in the artifact")
	f.StringArray("env", nil, "environment variable of the command, as NAME=value (repeatable)")
	f.String("kind", "", "run the worker handler of this kind")
	f.String("simulate", "", "simulate work: noop, sleep, fail, fail_permanent, flaky, cancel, hang, random")
	f.Duration("duration", 0, "how long simulated work takes")
	f.String("payload", "", "JSON payload: text, @file, or - for standard input")
	f.Duration("timeout", 0, "time limit of one attempt (default 5m)")

	f.Int("retries", 0, "maximum number of retries (default 3)")
	f.String("backoff", "", "backoff between retries: FIXED, LINEAR or EXPONENTIAL (default)")
	f.Duration("retry-delay", 0, "delay before the first retry (default 1s)")
	f.String("overlap", "", "what to do while an earlier run is active: allow (default), skip, queue or replace")
	f.String("catch-up", "", "missed runs to catch up: none, latest (default) or all")
	f.Int("priority", 0, "priority, 1 (highest) to 10 (default 5)")
	f.StringSlice("tag", nil, "tags, to group jobs")
	f.StringSlice("label", nil, "labels that a worker must have")
	f.String("queue", "", "queue (default \"default\")")
	f.Int("max-concurrent", 0, "maximum number of executions at once")
	f.String("concurrency-key", "", "apply the limits per value of this expression, such as payload.customer_id")
	f.String("rate", "", "maximum number of starts per period, such as 10/1s")
	f.String("unique-key", "", "create no other execution while one with this key is unfinished")
	f.Duration("expires-after", 0, "executions that have not started after this long end as EXPIRED")
	f.Duration("auto-redrive-after", 0, "redrive a dead letter once, automatically, after this long")
	f.Int("retention-days", 0, "days that the history of the job is kept, at most as long as the tenant's")
	f.Int("retention-failed-days", 0, "days that failed executions are kept (default as --retention-days)")
	f.String("description", "", "what the job is for")
	f.String("owner", "", "who is responsible for the job")
	f.String("runbook", "", "what to do when the job fails")
	f.String("body", "", "the whole request as JSON or YAML, as in the API: text, @file, or -; flags override it")
	complete(c, "calendar", s.calendarNames())
	complete(c, "queue", s.queueNames())
	complete(c, "tag", s.tags())
	complete(c, "method", fixed("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"))
	complete(c, "simulate", fixed("noop", "sleep", "fail", "fail_permanent", "flaky", "cancel", "hang", "random"))
	complete(c, "backoff", fixed("FIXED", "LINEAR", "EXPONENTIAL"))
	complete(c, "overlap", fixed("allow", "skip", "queue", "replace"))
	complete(c, "catch-up", fixed("none", "latest", "all"))
	return &jobFlags{s, f}
}

func (f *jobFlags) given(name string) bool { return f.set.Changed(name) }

func (f *jobFlags) text(name string) string { return f.set.Lookup(name).Value.String() }

// request returns the request that the flags describe. argv holds the arguments after --.
func (f *jobFlags) request(argv []string) (fields, error) {
	out := fields{}
	if f.given("body") {
		data, err := f.s.content(f.text("body"), "--body")
		if err != nil {
			return nil, err
		}
		if data, err = jsonOf(data); err == nil {
			out, err = decodeFields(data)
		}
		if err == nil && out == nil {
			err = errors.New("it is null")
		}
		if err != nil {
			return nil, usage{fmt.Errorf("--body: want an object, as JSON or YAML: %w", err)}
		}
	}
	schedule, err := f.schedule()
	if err != nil {
		return nil, err
	}
	execution, err := f.execution(argv)
	if err != nil {
		return nil, err
	}
	retry := fields{}
	if f.given("retries") {
		retry["max_retries"] = f.number("retries")
	}
	if f.given("backoff") {
		retry["backoff"] = strings.ToUpper(f.text("backoff"))
	}
	if f.given("retry-delay") {
		retry["initial_delay_ms"] = f.duration("retry-delay").Milliseconds()
	}
	retention := fields{}
	for flag, name := range map[string]string{"retention-days": "days", "retention-failed-days": "failed_days"} {
		if f.given(flag) {
			retention[name] = f.number(flag)
		}
	}
	for name, part := range map[string]fields{"schedule": schedule, "execution": execution, "retry_policy": retry, "retention": retention} {
		if len(part) > 0 {
			under, _ := out[name].(map[string]any)
			if under == nil {
				under = fields{}
			}
			for k, v := range part {
				under[k] = v
			}
			out[name] = under
		}
	}
	for flag, name := range map[string]string{
		"overlap": "overlap", "catch-up": "catch_up", "queue": "queue", "concurrency-key": "concurrency_key", "unique-key": "unique_key",
		"description": "description", "owner": "owner", "runbook": "runbook",
	} {
		if f.given(flag) {
			out[name] = orNull(f.text(flag))
		}
	}
	for flag, name := range map[string]string{"priority": "priority", "max-concurrent": "max_concurrent"} {
		if f.given(flag) {
			out[name] = f.number(flag)
		}
	}
	for flag, name := range map[string]string{"tag": "tags", "label": "labels"} {
		if f.given(flag) {
			list, _ := f.set.GetStringSlice(flag)
			out[name] = list
		}
	}
	for flag, name := range map[string]string{"expires-after": "expires_after", "auto-redrive-after": "auto_redrive_after"} {
		if f.given(flag) {
			out[name] = f.duration(flag).String()
		}
	}
	if f.given("rate") {
		rate, err := parseRate(f.text("rate"))
		if err != nil {
			return nil, err
		}
		out["rate_limit"] = rate
	}
	return out, nil
}

// orNull turns an empty text into null: the field is unset.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (f *jobFlags) number(flag string) int { n, _ := f.set.GetInt(flag); return n }

func (f *jobFlags) duration(flag string) time.Duration { d, _ := f.set.GetDuration(flag); return d }

// onlyOne refuses flags that exclude each other, and returns the one given.
func (f *jobFlags) onlyOne(flags ...string) (string, error) {
	var found []string
	for _, name := range flags {
		if f.given(name) {
			found = append(found, "--"+name)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return strings.TrimPrefix(found[0], "--"), nil
	}
	return "", usage{fmt.Errorf("%s exclude each other; want one of them", strings.Join(found, " and "))}
}

func (f *jobFlags) schedule() (fields, error) {
	out := fields{}
	zone := time.Local
	if tz := f.text("tz"); tz != "" {
		var err error
		if zone, err = time.LoadLocation(tz); err != nil {
			return nil, usage{fmt.Errorf("--tz %q: want a zone such as Europe/Berlin", tz)}
		}
	}
	instant := func(flag string) (string, error) {
		t, err := parseTime(f.text(flag), zone, f.s.now())
		if err != nil {
			return "", usage{fmt.Errorf("--%s: %w", flag, err)}
		}
		return t.UTC().Format(time.RFC3339Nano), nil
	}
	kind, err := f.onlyOne("every", "cron", "at")
	if err != nil {
		return nil, err
	}
	switch kind {
	case "every":
		out["type"], out["every"] = "INTERVAL", f.text("every")
	case "cron":
		out["type"], out["cron_expression"] = "CRON", f.text("cron")
	case "at":
		out["type"] = "ONE_TIME"
		if out["scheduled_time"], err = instant("at"); err != nil {
			return nil, err
		}
	}
	if f.given("tz") && kind != "at" {
		out["timezone"] = f.text("tz")
	}
	if f.given("calendar") {
		out["calendar"] = orNull(f.text("calendar"))
	}
	if f.given("jitter") {
		out["jitter_ms"] = f.duration("jitter").Milliseconds()
	}
	if f.given("max-runs") {
		out["max_runs"], _ = f.set.GetInt64("max-runs")
	}
	for flag, name := range map[string]string{"start-at": "start_at", "end-at": "end_at"} {
		if f.given(flag) {
			if out[name], err = instant(flag); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (f *jobFlags) execution(argv []string) (fields, error) {
	out := fields{}
	kind, err := f.onlyOne("http", "command", "kind", "simulate")
	if err != nil {
		return nil, err
	}
	if len(argv) > 0 && kind != "" {
		return nil, usage{fmt.Errorf("both --%s and a command after -- are given; want one of them", kind)}
	}
	switch {
	case kind == "http":
		out["target"], out["callback_url"] = "http", f.text("http")
	case kind == "command":
		if argv, err = words(f.text("command")); err != nil {
			return nil, usage{fmt.Errorf("--command: %w", err)}
		}
		out["target"], out["command"] = "command", argv
	case len(argv) > 0:
		out["target"], out["command"] = "command", argv
	case f.given("artifact") || f.given("entrypoint"):
		out["target"] = "command"
	case kind == "kind":
		out["target"], out["kind"] = "worker", f.text("kind")
	case kind == "simulate":
		out["target"], out["work_kind"] = "simulate", f.text("simulate")
	}
	for flag, name := range map[string]string{"method": "method", "artifact": "artifact_id", "entrypoint": "entrypoint"} {
		if f.given(flag) {
			out[name] = f.text(flag)
		}
	}
	for flag, p := range map[string]struct{ name, sep, want string }{"header": {"headers", ":", "Name: value"}, "env": {"env", "=", "NAME=value"}} {
		if f.given(flag) {
			list, _ := f.set.GetStringArray(flag)
			pairs := map[string]string{}
			for _, text := range list {
				k, v, ok := strings.Cut(text, p.sep)
				if !ok || strings.TrimSpace(k) == "" {
					return nil, usage{fmt.Errorf("--%s: want '%s'", flag, p.want)} // without the value: it may be secret
				}
				if pairs[strings.TrimSpace(k)] = v; p.sep == ":" {
					pairs[strings.TrimSpace(k)] = strings.TrimSpace(v)
				}
			}
			out[p.name] = pairs
		}
	}
	if f.given("expect-status") {
		codes, _ := f.set.GetIntSlice("expect-status")
		out["expect"] = fields{"status": codes}
	}
	if f.given("duration") {
		out["duration_ms"] = f.duration("duration").Milliseconds()
	}
	if f.given("timeout") {
		if f.duration("timeout") < time.Second {
			return nil, usage{fmt.Errorf("--timeout %s: want 1s or more", f.duration("timeout"))}
		}
		out["timeout_seconds"] = int64(f.duration("timeout") / time.Second)
	}
	if f.given("payload") {
		if out["payload"], err = f.s.payload(f.text("payload"), "--payload"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// content returns the value of a flag: text, @file, or - for standard input.
func (s *session) content(text, flag string) ([]byte, error) {
	var data []byte
	var err error
	switch name, file := strings.CutPrefix(text, "@"); {
	case text == "-":
		data, err = io.ReadAll(io.LimitReader(s.in, 16<<20))
	case file:
		data, err = os.ReadFile(name)
	default:
		return []byte(text), nil
	}
	if err != nil {
		return nil, usage{fmt.Errorf("%s: %w", flag, err)}
	}
	return data, nil
}

// payload returns a flag's value as JSON.
func (s *session) payload(text, flag string) (json.RawMessage, error) {
	data, err := s.content(text, flag)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSpace(data)
	if !json.Valid(data) {
		return nil, usage{fmt.Errorf("%s: want JSON, such as '{\"n\": 1}' or '\"text\"', @file, or - for standard input", flag)}
	}
	return data, nil
}

// parseRate parses a rate: 10/1s, 10/s, 100/m.
func parseRate(text string) (fields, error) {
	count, per, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if per = strings.TrimSpace(per); len(per) > 0 && strings.Trim(per, "smh") == "" {
		per = "1" + per
	}
	if _, wrong := time.ParseDuration(per); err != nil || !ok || wrong != nil {
		return nil, usage{fmt.Errorf("the rate %q: want a number per period, such as 10/1s or 100/m", text)}
	}
	return fields{"count": n, "per": per}, nil
}

// parseTime parses an instant as people write it.
func parseTime(text string, zone *time.Location, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(strings.TrimPrefix(text, "+")); err == nil && (strings.HasPrefix(text, "+") || d < 0) {
		return now.Add(d), nil
	}
	if n, ok := strings.CutSuffix(text, "d"); ok && text != "" && strings.ContainsRune("+-", rune(text[0])) {
		if days, err := strconv.ParseFloat(n, 64); err == nil && math.Abs(days) <= 100_000 {
			return now.Add(time.Duration(days * float64(24*time.Hour))), nil
		}
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse("15:04", text); err == nil {
		here := now.In(zone)
		at := time.Date(here.Year(), here.Month(), here.Day(), t.Hour(), t.Minute(), 0, 0, zone)
		if !at.After(now) {
			at = time.Date(here.Year(), here.Month(), here.Day()+1, t.Hour(), t.Minute(), 0, 0, zone)
		}
		return at, nil
	}
	if text == "now" {
		return now, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time; want one such as 2026-01-31T15:04:05Z, '2026-01-31 15:04', 15:04, +10m, -24h or -7d", text)
}

// words splits a command line like a shell that knows only quotes and backslashes.
func words(text string) ([]string, error) {
	var out []string
	var b strings.Builder
	quote, in := rune(0), false
	escaped := false
	for _, c := range text {
		switch {
		case escaped:
			b.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				b.WriteRune(c)
			}
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				out = append(out, b.String())
				b.Reset()
			}
			in = false
		default:
			b.WriteRune(c)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	if in {
		out = append(out, b.String())
	}
	if len(out) == 0 {
		return nil, errors.New("want a program")
	}
	return out, nil
}
