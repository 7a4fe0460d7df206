package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// again is that what was read is read as the same when it is written.
func again[T any](t *testing.T, data []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	t.Helper()
	x, err := decode(data)
	if err != nil {
		return
	}
	written := encode(x)
	y, err := decode(written)
	if d := cmp.Diff(x, y, cmpopts.EquateEmpty()); err != nil || d != "" {
		t.Errorf("%q became %q: %v\n%s", data, written, err, d)
	}
	if z := encode(y); !bytes.Equal(written, z) {
		t.Errorf("%q is written as %q, and then as %q", data, written, z)
	}
}

// Whatever lies in a store, which may have been restored from a file, it is refused, or read as it would be written.
func FuzzStored(f *testing.F) {
	f.Add(EncodeTarget(&job.Target{URL: "https://example.com", Headers: map[string]string{"A": "b"}, Timeout: time.Second, Command: []string{"x"}}))
	f.Add(EncodeEnd(&job.Error{Type: job.HTTPError, Message: "answered 500", HTTPStatus: 500}, &job.Response{HTTPStatus: 500, BodyPreview: "no"}))
	f.Add(EncodeSkip(map[string]string{"reason": "x"}))
	f.Add(EncodeProgress(7, "half"))
	m := TenantMinute{Started: 300, Wait: time.Second}
	m.Delays[3] = 7
	f.Add(EncodeMinute(&m))
	f.Add(EncodeDepths([]QueueDepth{{Queue: "default", Waiting: 7, Oldest: time.Minute}}))
	f.Add([]byte(`{"desc": "a", "at": "2026-01-01T00:00:00+01:00", "r": 3}`))
	f.Add([]byte("null"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, data, DecodeTarget, func(x job.Target) []byte { return EncodeTarget(&x) })
		again(t, data, DecodeMinute, func(m TenantMinute) []byte { return EncodeMinute(&m) })
		again(t, data, DecodeDepths, EncodeDepths)
		if p, err := DecodeProgress(data, time.Unix(1, 0)); err == nil && p == nil && len(data) > 0 {
			t.Errorf("%q is no progress", data)
		}
		if e, r, err := DecodeEnd(data); err == nil {
			EncodeEnd(e, r)
		}
		DecodeMetadata(data)
		_, _ = DecodeMonth(data)
		_, _ = DecodeOverrides(string(data))
		var j job.Job
		if err := DecodeSpec(data, &j); err == nil {
			EncodeSpec(&j)
		}
	})
}
