// Package wire turns the parts of a request that say what runs into the core's types: targets and retry policies, of
// jobs and of the inline nodes of workflows.
//
// The API reads requests with it. Rendered reads the rendered templates of a starting node by the same rules. The
// package fills in defaults and leaves validation to the core.
package wire

import (
	"errors"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

// Target converts a target to the core's form, with the defaults filled in.
func Target(e client.Target) job.Target {
	t := job.Target{
		Kind: job.TargetKind(strings.ToLower(e.Target)), URL: e.CallbackURL, Method: strings.ToUpper(e.Method), Headers: e.Headers,
		Command: e.Command, Artifact: e.ArtifactID, Entrypoint: e.Entrypoint, Env: e.Env,
		FollowRedirects: e.FollowRedirects, Handler: e.Kind, WorkKind: strings.ToLower(e.WorkKind), FailAttempts: e.FailAttempts,
		Timeout: scaled(deref(e.TimeoutSeconds, int64(job.DefaultTimeout/time.Second)), time.Second), Duration: scaled(e.DurationMS, time.Millisecond),
		Stall: scaled(deref(e.StallTimeoutSeconds, 0), time.Second), Total: scaled(deref(e.TotalTimeoutSeconds, 0), time.Second),
	}
	if t.Kind == "" {
		t.Kind = job.HTTP
	}
	if t.Kind == job.HTTP && t.Method == "" {
		t.Method = "POST"
	}
	if e.Expect != nil {
		t.ExpectStatus, t.ExpectBody = e.Expect.Status, deref(e.Expect.BodyContains, "")
	}
	return t
}

// Payload returns the payload of a target; nil: none.
func Payload(e client.Target) []byte {
	if len(e.Payload) == 0 || string(e.Payload) == "null" {
		return nil
	}
	return e.Payload
}

// Retry returns the requested policy; fields left out are taken from the other.
func Retry(r *client.RetryPolicy, p job.RetryPolicy) job.RetryPolicy {
	if r == nil {
		return p
	}
	p.MaxRetries = deref(r.MaxRetries, p.MaxRetries)
	if r.Backoff != "" {
		p.Backoff = job.Backoff(strings.ToUpper(r.Backoff))
	}
	if r.InitialDelayMS != nil {
		p.InitialDelay = scaled(*r.InitialDelayMS, time.Millisecond)
	}
	switch {
	case r.MaxDelayMS != nil:
		p.MaxDelay = scaled(*r.MaxDelayMS, time.Millisecond)
	case p.InitialDelay > p.MaxDelay:
		p.MaxDelay = p.InitialDelay // only the one was asked for
	}
	return p
}

// Rendered reads the execution of an inline node after rendering its templates, and checks it like a stored job's.
// Its error is job.Invalids.
func Rendered(execution []byte) (job.Target, []byte, error) {
	var e client.Target
	err := strictjson.Unmarshal(execution, &e)
	var bad *strictjson.Error
	if errors.As(err, &bad) {
		var v job.Invalids
		for _, p := range bad.Problems {
			v = append(v, job.Invalid{Field: strings.TrimSuffix("execution."+p.Field, "."), Value: p.Value, Want: p.Want})
		}
		return job.Target{}, nil, v
	}
	if err != nil {
		return job.Target{}, nil, job.Invalids{{Field: "execution", Value: job.Show(string(execution)), Want: "the execution of a job: " + err.Error()}}
	}
	t := Target(e)
	if v := t.Check(); len(v) > 0 {
		return t, nil, v
	}
	return t, Payload(e), nil
}

// Sample returns a target with a value in place of each {{ expression }}, for the checks of a definition. guessed
// means that the host of its URL is known only when the node starts.
func Sample(e client.Target) (out client.Target, guessed bool) {
	out = e
	if strings.HasPrefix(strings.TrimSpace(e.CallbackURL), "{{") {
		out.CallbackURL, guessed = "https://example.com/", true
	} else if strings.Contains(e.CallbackURL, "{{") {
		out.CallbackURL = filled(e.CallbackURL)
		host := e.CallbackURL[strings.Index(e.CallbackURL, "//")+1:]
		end := strings.IndexAny(host[min(1, len(host)):], "/?#")
		at := strings.Index(host, "{{")
		guessed = at >= 0 && (end < 0 || at < end+1)
	}
	if e.Headers != nil {
		out.Headers = make(map[string]string, len(e.Headers))
		for name, value := range e.Headers {
			out.Headers[name] = filled(value)
		}
	}
	if e.Command != nil {
		out.Command = make([]string, len(e.Command))
		for i, arg := range e.Command {
			out.Command[i] = filled(arg)
		}
	}
	return out, guessed
}

// filled returns a text with a digit, which is allowed anywhere, in place of each expression.
func filled(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('1')
		if _, s, found = strings.Cut(rest, "}}"); !found {
			return b.String()
		}
	}
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// scaled keeps an out-of-range number out of range, where a plain product would wrap around.
func scaled(n int64, unit time.Duration) time.Duration {
	const most = int64(1<<63 - 1)
	switch limit := most / int64(unit); {
	case n > limit:
		return time.Duration(most)
	case n < -limit:
		return -time.Duration(most)
	}
	return time.Duration(n) * unit
}
