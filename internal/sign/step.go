package sign

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
)

// The headers of a callback, besides those that identify the attempt.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
	HeaderToken     = "Carillon-Callback-Token"
	HeaderTrace     = "traceparent"
)

// Step is the delivery step that adds the headers of a callback. It is the last one: it signs the body as it is sent.
func Step(s *Secrets, t *Tokens, clk clock.Clock) delivery.Step {
	return func(ctx context.Context, a job.Attempt, out *client.Attempt) error {
		if a.Target.Kind != job.HTTP {
			return nil
		}
		now := clk.Now()
		keys, err := s.Keys(ctx, a.Tenant, now)
		if err != nil {
			if no := new(unreadable); errors.As(err, &no) { // an unsigned callback is worse than none
				return &delivery.Refusal{Cause: job.Error{Type: job.InternalError, Message: no.Error()}, Retryable: true}
			}
			return err
		}
		out.Payload = compact(out.Payload)
		out.CallbackHeaders = map[string]string{
			HeaderID: out.ExecutionID, HeaderTimestamp: strconv.FormatInt(now.Unix(), 10),
			HeaderToken: t.Make(a.Tenant, a.Lease), HeaderTrace: trace(a.Execution),
		}
		if len(keys) == 0 {
			return nil
		}
		var body []byte
		if m := out.Execution.Method; m != "GET" && m != "HEAD" { // which are sent without one
			body = out.Payload
		}
		signatures := make([]string, len(keys))
		for i, k := range keys {
			signatures[i] = k.Sign(out.ExecutionID, now, body)
		}
		out.CallbackHeaders[HeaderSignature] = strings.Join(signatures, " ")
		return nil
	}
}

// compact returns JSON as it arrives at a worker: the space between values is lost on the way, and the signature must
// cover what is sent, whichever way it goes.
func compact(payload json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.Grow(len(payload))
	if json.Compact(&b, payload) != nil {
		return payload
	}
	return b.Bytes()
}

// trace returns the context of an attempt: the trace of its execution, whose id it has, and a new span.
func trace(id job.ExecutionID) string {
	var span [8]byte
	_, _ = rand.Read(span[:]) // it never fails
	return "00-" + hex.EncodeToString(id[:]) + "-" + hex.EncodeToString(span[:]) + "-01"
}
