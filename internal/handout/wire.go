package handout

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
)

// wire is an attempt as it travels, before it is completed.
func wire(a job.Attempt) client.Attempt {
	t := a.Target
	out := client.Attempt{
		ExecutionID: a.Execution.String(), JobID: a.Job.String(), JobName: a.JobName, TenantID: string(a.Tenant), Payload: a.Payload, Kind: t.Handler,
		Execution: client.Target{
			Target: string(t.Kind), CallbackURL: t.URL, Method: t.Method, Headers: t.Headers, TimeoutSeconds: new(timeLeft(a)),
			FollowRedirects: t.FollowRedirects, Command: t.Command, ArtifactID: t.Artifact, Entrypoint: t.Entrypoint, Env: t.Env, Kind: t.Handler, WorkKind: t.WorkKind, DurationMS: t.Duration.Milliseconds(), FailAttempts: t.FailAttempts,
		},
		AttemptNumber: a.Number, FencingToken: int64(a.Token), ScheduledTime: a.ScheduledAt, Deadline: a.Deadline(),
		IdempotencyKey: job.IdempotencyKey(a.Job, a.Execution, a.Trigger, a.ScheduledAt), Traceparent: traceparent(a),
	}
	if len(t.ExpectStatus) > 0 || t.ExpectBody != "" {
		out.Execution.Expect = &client.Expect{Status: t.ExpectStatus, BodyContains: contains(t.ExpectBody)}
	}
	return out
}

// contains is what an answer must contain, if anything.
func contains(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// timeLeft is how many seconds the attempt has, from when it was leased: a worker's clock may be another than ours.
func timeLeft(a job.Attempt) int64 {
	return max(1, int64((a.Deadline().Sub(a.LeasedAt)+time.Second-1)/time.Second))
}

// traceparent puts all attempts of an execution into one trace, each as a span of its own.
func traceparent(a job.Attempt) string {
	b := make([]byte, 0, 55)
	b = hex.AppendEncode(append(b, "00-"...), a.Execution[:])
	b = hex.AppendEncode(append(b, '-'), binary.BigEndian.AppendUint64(nil, uint64(max(a.Token, 1))))
	return string(append(b, "-01"...))
}
