package job

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Defaults of a definition; API.md's and SPEC.md's.
const (
	DefaultPriority = 5
	DefaultTimeout  = 300 * time.Second
)

// DefaultRetry is the retry policy of a job that names none.
var DefaultRetry = RetryPolicy{MaxRetries: 3, Backoff: Exponential, InitialDelay: time.Second, MaxDelay: time.Minute}

// Limits of a definition.
const (
	maxName        = 255
	maxDescription = 10_000
	maxTags        = 50
	maxLabels      = 20
	maxTag         = 100
	maxURL         = 2048
	maxHeaders     = 100
	maxHeaderValue = 8192
	maxRetries     = 100
	maxTimeout     = 7 * 24 * time.Hour
	maxWork        = 24 * time.Hour
)

var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Methods lists the HTTP methods that a callback may use.
var Methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}

// WorkKinds lists the kinds of simulated work.
var WorkKinds = []string{"noop", "sleep", "fail", "fail_permanent", "flaky", "cancel", "hang", "random"}

// Check returns everything that is wrong with the definition.
func (d *Definition) Check() Invalids {
	var v Invalids
	if n := utf8.RuneCountInString(d.Name); n < 1 || n > maxName || !printable(d.Name) || strings.TrimSpace(d.Name) == "" {
		v.Add("name", d.Name, "1 to 255 characters, not blank, without control characters")
	}
	if d.Key != "" && !ValidKey(d.Key) {
		v.Add("key", d.Key, "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	}
	if utf8.RuneCountInString(d.Description) > maxDescription || !text(d.Description) {
		v.Add("description", d.Description, "at most 10000 characters, without control characters other than tabs and line breaks")
	}
	if utf8.RuneCountInString(d.Owner) > maxName || !printable(d.Owner) {
		v.Add("owner", d.Owner, "at most 255 characters, without control characters")
	}
	if len(d.Runbook) > maxURL || !text(d.Runbook) {
		v.Add("runbook", d.Runbook, "at most 2048 characters, without control characters other than tabs and line breaks")
	}
	if d.Asleep && d.Schedule.Type == Immediate {
		v.Add("paused", true, "false, or a schedule of another type: an IMMEDIATE job runs at once")
	}
	if d.Priority < 1 || d.Priority > 10 {
		v.Add("priority", d.Priority, "a whole number from 1 (highest) to 10")
	}
	if !ValidKey(d.Queue) {
		v.Add("queue", d.Queue, "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	}
	if len(d.Labels) > maxLabels {
		v.Add("labels", fmt.Sprintf("%d labels", len(d.Labels)), "at most 20 labels")
	}
	for i, l := range d.Labels {
		if !ValidName(l) {
			v.Add(fmt.Sprintf("labels[%d]", i), l, "1 to 128 of letters, digits, '.', '_', ':', '/' and '-'")
		}
	}
	v = append(v, CheckTags(d.Tags)...)
	d.checkLimits(&v)
	d.Schedule.check(&v)
	d.Target.check(&v)
	d.Retry.check(&v)
	d.checkPolicies(&v)
	return v
}

// CheckTags reports what is wrong with tags.
func CheckTags(tags []string) (v Invalids) {
	if len(tags) > maxTags {
		v.Add("tags", fmt.Sprintf("%d tags", len(tags)), "at most 50 tags")
	}
	for i, t := range tags {
		if n := utf8.RuneCountInString(t); n < 1 || n > maxTag || !printable(t) {
			v.Add(fmt.Sprintf("tags[%d]", i), t, "1 to 100 characters, without control characters")
		} else if slices.Index(tags, t) < i {
			v.Add(fmt.Sprintf("tags[%d]", i), t, "each tag only once")
		}
	}
	return v
}

// ValidName reports whether s may name a label or the kind of a handler.
func ValidName(s string) bool {
	if len(s) < 1 || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._:/-", c) >= 0) {
			return false
		}
	}
	return true
}

// ValidKey reports whether s may be a job's key.
func ValidKey(s string) bool {
	if len(s) < 1 || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		word := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !word && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

func (s *Schedule) check(v *Invalids) {
	switch s.Type {
	case Immediate:
		if !s.At.IsZero() {
			v.Add("schedule.scheduled_time", s.At.Format(time.RFC3339Nano), "no scheduled_time with type IMMEDIATE; use type ONE_TIME")
		}
	case Manual:
		if !s.At.IsZero() {
			v.Add("schedule.scheduled_time", s.At.Format(time.RFC3339Nano), "no scheduled_time with type MANUAL, which runs only when triggered; use type ONE_TIME")
		}
	case OneTime:
		switch {
		case s.At.IsZero():
			v.Add("schedule.scheduled_time", "", "the instant to fire at, such as 2030-01-02T15:04:05Z")
		case s.At.Before(earliest) || !s.At.Before(latest):
			v.Add("schedule.scheduled_time", s.At.Format(time.RFC3339Nano), "an instant from the year 2000 to 9999")
		}
	case Cron:
		if s.Cron == "" {
			v.Add("schedule.cron_expression", "", "the expression, such as 30 4 * * 1-5")
		}
		s.refuse(v, s.Every != 0, "every", s.Every)
	case Interval:
		if s.Every <= 0 {
			v.Add("schedule.every", s.Every, "a duration of at least 1s, such as 90s or 1h30m")
		}
		s.refuse(v, s.Cron != "", "cron_expression", s.Cron)
		s.refuse(v, s.Day != "", "day", s.Day)
	default:
		v.Add("schedule.type", s.Type, "one of IMMEDIATE, ONE_TIME, CRON, INTERVAL, MANUAL")
	}
	switch {
	case !s.Type.Recurs() && *s == (Schedule{Type: s.Type, At: s.At, Zone: s.Zone, Jitter: s.Jitter}): // the common case, with nothing to report
	case !s.Type.Recurs():
		s.refuse(v, s.Cron != "", "cron_expression", s.Cron)
		s.refuse(v, s.Every != 0, "every", s.Every)
		s.refuse(v, s.Day != "", "day", s.Day)
		s.refuse(v, !s.Start.IsZero(), "start_at", s.Start.Format(time.RFC3339))
		s.refuse(v, !s.End.IsZero(), "end_at", s.End.Format(time.RFC3339))
		s.refuse(v, s.MaxRuns != 0, "max_runs", s.MaxRuns)
		s.refuse(v, s.Calendar != "", "calendar", s.Calendar)
	default:
		s.checkRecurring(v)
	}
	if (s.Type == Immediate || s.Type == Manual) && s.Jitter != 0 {
		s.refuse(v, true, "jitter_ms", s.Jitter.Milliseconds())
	}
	if s.Jitter < 0 || s.Jitter > maxJitter {
		v.Add("schedule.jitter_ms", s.Jitter.Milliseconds(), "a whole number from 0 to 86400000 (24 hours)")
	}
}

const maxJitter = 24 * time.Hour

func (s *Schedule) refuse(v *Invalids, given bool, field string, value any) {
	if !given {
		return
	}
	want := fmt.Sprintf("no %s with type %s", field, s.Type)
	switch {
	case field == "cron_expression" && !s.Type.Recurs():
		want += "; use type CRON"
	case field == "every" && !s.Type.Recurs():
		want += "; use type INTERVAL"
	}
	v.Add("schedule."+field, value, want)
}

// checkRecurring checks the fields that only a recurring schedule has; package schedule checks its expression.
func (s *Schedule) checkRecurring(v *Invalids) {
	if !s.At.IsZero() {
		v.Add("schedule.scheduled_time", s.At.Format(time.RFC3339Nano), fmt.Sprintf("no scheduled_time with type %s; use start_at", s.Type))
	}
	for field, t := range map[string]time.Time{"start_at": s.Start, "end_at": s.End} {
		if !t.IsZero() && (t.Before(earliest) || !t.Before(latest)) {
			v.Add("schedule."+field, t.Format(time.RFC3339Nano), "an instant from the year 2000 to 9999")
		}
	}
	if !s.End.IsZero() && !s.End.After(s.Start) {
		v.Add("schedule.end_at", s.End.Format(time.RFC3339Nano), "an instant after start_at, which is "+s.Start.Format(time.RFC3339Nano))
	}
	if s.MaxRuns < 0 {
		v.Add("schedule.max_runs", s.MaxRuns, "a whole number, at least 1, or null")
	}
	if s.Calendar != "" && !ValidKey(s.Calendar) {
		v.Add("schedule.calendar", s.Calendar, "the name of a calendar: 1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	}
}

// checkPolicies checks the overlap and catch-up policies.
func (d *Definition) checkPolicies(v *Invalids) {
	if d.Overlap != "" && !slices.Contains(Overlaps(), d.Overlap) {
		v.Add("overlap", string(d.Overlap), "one of allow, skip, queue, replace")
	}
	if d.CatchUp != "" && !slices.Contains(CatchUps(), d.CatchUp) {
		v.Add("catch_up", string(d.CatchUp), "one of none, latest, all")
	}
	if d.CatchUpLimit < 0 || d.CatchUpLimit > maxCatchUp {
		v.Add("catch_up_limit", d.CatchUpLimit, "a whole number from 1 to 1000")
	}
	if (d.Overlap == OverlapQueue || d.Overlap == OverlapReplace) && d.ConcurrencyKey != "" {
		v.Add("overlap", string(d.Overlap), "allow or skip with a concurrency_key, because the key already makes executions wait for each other")
	}
}

const maxCatchUp = 1000

func (t *Target) check(v *Invalids) {
	if t.Kind == Workflow { // its definition has its own rules
		if t.Version < 1 {
			v.Add("execution.target", string(t.Kind), "one of http, command, worker, simulate; POST /workflows creates workflows")
		}
		return
	}
	if t.Timeout < time.Second || t.Timeout > maxTimeout {
		v.Add("execution.timeout_seconds", int64(t.Timeout/time.Second), "a whole number from 1 to 604800 (7 days)")
	}
	t.checkTimes(v)
	switch t.Kind {
	case HTTP:
		t.checkHTTP(v)
		t.refuseWork(v)
	case Simulate:
		t.checkSimulate(v)
		t.refuseHTTP(v)
	case Handler:
		if !ValidName(t.Handler) {
			v.Add("execution.kind", t.Handler, "the kind of handler: 1 to 128 of letters, digits, '.', '_', ':', '/' and '-'")
		}
		t.refuseHTTP(v)
		t.refuseWork(v)
	case Command:
		t.checkCommand(v)
		t.refuseHTTP(v)
		t.refuseWork(v)
	default:
		v.Add("execution.target", string(t.Kind), "one of http, command, worker, simulate")
	}
	if t.Kind != Command {
		t.refuseCommand(v)
	}
	if t.Kind != Handler && t.Handler != "" {
		t.refuse(v, true, "kind", t.Handler)
	}
}

// Check validates a target, under the names of a request.
func (t *Target) Check() Invalids {
	var v Invalids
	t.check(&v)
	return v
}

// refuseHTTP refuses what only the target http takes.
func (t *Target) refuseHTTP(v *Invalids) {
	if t.URL == "" && t.Method == "" && len(t.Headers)+len(t.ExpectStatus) == 0 && t.ExpectBody == "" && !t.FollowRedirects {
		return // the common case: no messages are built that nobody reads
	}
	t.refuse(v, t.URL != "", "callback_url", t.URL)
	t.refuse(v, t.Method != "", "method", t.Method)
	t.refuse(v, len(t.Headers) > 0, "headers", fmt.Sprintf("%d headers", len(t.Headers)))
	t.refuse(v, len(t.ExpectStatus) > 0 || t.ExpectBody != "", "expect", "")
	t.refuse(v, t.FollowRedirects, "follow_redirects", true)
}

// refuseCommand refuses what only the target command takes.
func (t *Target) refuseCommand(v *Invalids) {
	if len(t.Command)+len(t.Env) == 0 && t.Artifact == "" && t.Entrypoint == "" {
		return
	}
	t.refuse(v, len(t.Command) > 0, "command", strings.Join(t.Command, " "))
	t.refuse(v, t.Artifact != "", "artifact_id", t.Artifact)
	t.refuse(v, t.Entrypoint != "", "entrypoint", t.Entrypoint)
	t.refuse(v, len(t.Env) > 0, "env", fmt.Sprintf("%d variables", len(t.Env)))
}

// refuseWork refuses what only the target simulate takes.
func (t *Target) refuseWork(v *Invalids) {
	if t.WorkKind == "" && t.Duration == 0 && t.FailAttempts == 0 {
		return
	}
	t.refuse(v, t.WorkKind != "", "work_kind", t.WorkKind)
	t.refuse(v, t.Duration != 0, "duration_ms", t.Duration.Milliseconds())
	t.refuse(v, t.FailAttempts != 0, "fail_attempts", t.FailAttempts)
}

func (t *Target) refuse(v *Invalids, given bool, field string, value any) {
	if given {
		v.Add("execution."+field, value, fmt.Sprintf("no %s with target %s", field, t.Kind))
	}
}

func (t *Target) checkHTTP(v *Invalids) {
	if want := badURL(t.URL); want != "" {
		v.Add("execution.callback_url", redactURL(t.URL), want)
	}
	if !slices.Contains(Methods, t.Method) {
		v.Add("execution.method", t.Method, "one of "+strings.Join(Methods, ", "))
	}
	if len(t.Headers) > maxHeaders {
		v.Add("execution.headers", fmt.Sprintf("%d headers", len(t.Headers)), "at most 100 headers")
	}
	names := make([]string, 0, len(t.Headers))
	for name := range t.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := map[string]string{}
	for _, name := range names {
		field := fmt.Sprintf("execution.headers[%q]", Show(name))
		lower := strings.ToLower(name)
		switch {
		case !headerName(name):
			v.Add(field, name, "a header name of letters, digits and -!#$%&'*+.^_`|~")
		case reservedHeader(lower):
			v.Add(field, name, "another header: Carillon or the connection sets this one")
		case seen[lower] != "":
			v.Add(field, name, fmt.Sprintf("each header only once; %q is the same header", seen[lower]))
		}
		seen[lower] = name
		if val := t.Headers[name]; len(val) > maxHeaderValue || !headerValue(val) {
			v.Add(field, "(not shown)", "at most 8192 bytes, without line breaks and other control characters")
		}
	}
	for i, s := range t.ExpectStatus {
		if s < 100 || s > 599 {
			v.Add(fmt.Sprintf("execution.expect.status[%d]", i), s, "an HTTP status from 100 to 599")
		}
	}
	if len(t.ExpectBody) > 1024 {
		v.Add("execution.expect.body_contains", t.ExpectBody, "at most 1024 bytes")
	}
}

func (t *Target) checkSimulate(v *Invalids) {
	if !slices.Contains(WorkKinds, t.WorkKind) {
		v.Add("execution.work_kind", t.WorkKind, "one of "+strings.Join(WorkKinds, ", "))
	}
	if t.Duration < 0 || t.Duration > maxWork {
		v.Add("execution.duration_ms", t.Duration.Milliseconds(), "a whole number from 0 to 86400000 (24 hours)")
	}
	if t.FailAttempts < 0 || t.FailAttempts > 1000 {
		v.Add("execution.fail_attempts", t.FailAttempts, "a whole number from 0 to 1000")
	}
}

func (p RetryPolicy) check(v *Invalids) {
	if p.MaxRetries < 0 || p.MaxRetries > maxRetries {
		v.Add("retry_policy.max_retries", p.MaxRetries, "a whole number from 0 to 100")
	}
	if !slices.Contains([]Backoff{Fixed, Linear, Exponential}, p.Backoff) {
		v.Add("retry_policy.backoff", string(p.Backoff), "one of FIXED, LINEAR, EXPONENTIAL")
	}
	const delays = "a whole number from 0 to 2592000000 (30 days)"
	if p.InitialDelay < 0 || p.InitialDelay > MaxRetryDelay {
		v.Add("retry_policy.initial_delay_ms", p.InitialDelay.Milliseconds(), delays)
	}
	if p.MaxDelay < 0 || p.MaxDelay > MaxRetryDelay {
		v.Add("retry_policy.max_delay_ms", p.MaxDelay.Milliseconds(), delays)
	} else if p.MaxDelay < p.InitialDelay {
		v.Add("retry_policy.max_delay_ms", p.MaxDelay.Milliseconds(), fmt.Sprintf("at least initial_delay_ms, which is %d", p.InitialDelay.Milliseconds()))
	}
}

// badURL says what is wrong with a callback's address, or nothing.
func badURL(raw string) string {
	const example = "an absolute http or https URL such as https://example.com/hook"
	if raw == "" {
		return example
	}
	if len(raw) > maxURL {
		return "at most 2048 characters"
	}
	if !printable(raw) || strings.ContainsRune(raw, ' ') {
		return example + ", without blanks and control characters"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return example
	case u.Scheme != "http" && u.Scheme != "https":
		return example
	case u.User != nil:
		return "a URL without user name and password; send credentials in a header"
	case u.Fragment != "":
		return "a URL without a fragment (#…): servers never see it"
	}
	if p := u.Port(); p != "" {
		var n int
		if _, err := fmt.Sscanf(p, "%d", &n); err != nil || n < 1 || n > 65535 {
			return "a port from 1 to 65535"
		}
	}
	return ""
}

// redactURL hides what a URL says of a user, since the value goes into a message.
func redactURL(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.User != nil {
		return u.Redacted()
	}
	return raw
}

func headerName(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return true
}

func headerValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

func reservedHeader(lower string) bool {
	switch lower {
	case "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive", "proxy-connection", "expect",
		"x-job-id", "x-execution-id", "x-attempt-number", "x-idempotency-key", "x-scheduled-time", "x-fencing-token", "traceparent":
		return true
	}
	return strings.HasPrefix(lower, "webhook-") || strings.HasPrefix(lower, "carillon-")
}

// WantNote says what ValidNote asks for.
const WantNote = "at most 1000 characters, without control characters other than tabs and line breaks"

// ValidNote reports whether s may stand as a remark of a person's.
func ValidNote(s string) bool { return utf8.RuneCountInString(s) <= 1000 && text(s) }

// text is printable but for tabs and line breaks.
func text(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '\t' && r != '\n' && r != '\r' && (r < ' ' || r >= 0x7f && r < 0xa0)
	})
}

// Check says what is wrong with a schedule, but for its expression, which is package schedule's to check.
func (s Schedule) Check() Invalids {
	var v Invalids
	s.check(&v)
	return v
}
