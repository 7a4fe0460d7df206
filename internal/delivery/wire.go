package delivery

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
)

// wire is an attempt in its wire form, before it is completed. seconds holds its time left.
func wire(a *job.Attempt, seconds *int64) client.Attempt {
	t := &a.Target
	*seconds = timeLeft(a)
	// The four texts of each attempt share one buffer.
	var room [160]byte
	b := a.Execution.Append(room[:0])
	id := len(b)
	b = a.Job.Append(b)
	ofJob := len(b)
	b = job.AppendIdempotencyKey(b, a.Job, a.Execution, a.Trigger, a.ScheduledAt)
	key := len(b)
	text := string(appendTraceparent(b, a))
	out := client.Attempt{
		WantsResult: a.Trigger == job.ByWorkflow,
		ExecutionID: text[:id], JobID: text[id:ofJob], JobName: a.JobName, TenantID: string(a.Tenant), Payload: a.Payload, Kind: t.Handler,
		Execution: client.Target{
			Target: string(t.Kind), CallbackURL: t.URL, Method: t.Method, Headers: t.Headers, TimeoutSeconds: seconds,
			FollowRedirects: t.FollowRedirects, Command: t.Command, ArtifactID: t.Artifact, Entrypoint: t.Entrypoint, Env: t.Env, Kind: t.Handler, WorkKind: t.WorkKind, DurationMS: t.Duration.Milliseconds(), FailAttempts: t.FailAttempts,
		},
		AttemptNumber: a.Number, FencingToken: int64(a.Token), ScheduledTime: a.ScheduledAt, Deadline: a.Deadline(),
		IdempotencyKey: text[ofJob:key], Traceparent: text[key:],
	}
	if len(t.ExpectStatus) > 0 || t.ExpectBody != "" {
		out.Execution.Expect = &client.Expect{Status: t.ExpectStatus, BodyContains: contains(t.ExpectBody)}
	}
	return out
}

// withhold leaves out of an attempt what may name secrets. Start completes it.
func withhold(out *client.Attempt) {
	out.LateSecrets = true
	out.Payload, out.Execution.Headers, out.Execution.Env = nil, nil, nil
}

// contains returns what a response must contain, if anything.
func contains(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// timeLeft returns how many seconds the attempt has from its lease: a worker's clock may differ from ours.
func timeLeft(a *job.Attempt) int64 {
	return max(1, int64((a.Deadline().Sub(a.LeasedAt)+time.Second-1)/time.Second))
}

// appendTraceparent puts all attempts of an execution into one trace, each as its own span; those of a workflow's
// nodes go into the trace of the run.
func appendTraceparent(b []byte, a *job.Attempt) []byte {
	whole := a.Execution
	if !a.Run.IsZero() {
		whole = a.Run
	}
	b = hex.AppendEncode(append(b, "00-"...), whole[:])
	var span [8]byte
	binary.BigEndian.PutUint64(span[:], uint64(max(a.Token, 1)))
	return append(hex.AppendEncode(append(b, '-'), span[:]), "-01"...)
}
