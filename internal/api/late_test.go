package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	corejob "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// TestSecretsAreResolvedAtTheHandOut has executions wait, be leased and be handed back: only what a worker is given has values, and
// those of the moment.
func TestSecretsAreResolvedAtTheHandOut(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		var store engine.Store
		var resolved atomic.Int64
		var given []*corejob.Attempt
		f := open(func(c *api.Config, s engine.Store) {
			store = s
			step := c.Secrets.Step
			c.Delivery = delivery.New(c.Dispatch, c.Logger, func(ctx context.Context, a corejob.Attempt, out *client.Attempt) error {
				resolved.Add(1)
				given = append(given, &a)
				return step(ctx, a, out)
			})
		})
		put := func(value string) {
			want[client.Secret](f, 200, "PUT", "/api/v1/secrets/s", `{"value": "`+value+`"}`)
		}
		put("first-canary")
		const waiting = 40
		padding := strings.Repeat("x", 700_000) // so that not all fit into one answer
		for i := range waiting {
			want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "n%d", "execution": {"target": "worker", "kind": "k", "payload": {"v": "${secret:s}", "padding": %q}}}`, i, padding))
		}
		s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["k"], "capacity": 100}`)
		if n := resolved.Load(); n != 0 {
			t.Fatalf("%d were resolved that only wait", n)
		}
		put("second-canary") // while they wait, in memory and in the store
		got := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 100, "wait_seconds": 5}`, "X-Worker-Session", s.Session)
		if n := len(got.Attempts); n == 0 || n >= waiting || resolved.Load() != int64(n) {
			t.Errorf("%d were given, and %d resolved: what did not fit and was handed back is not", n, resolved.Load())
		}
		for _, a := range got.Attempts {
			var payload struct{ V string }
			if err := json.Unmarshal(a.Payload, &payload); err != nil || payload.V != "second-canary" {
				t.Fatalf("given %q, %v", payload.V, err)
			}
			id, err := corejob.ParseExecutionID(a.ExecutionID)
			if err != nil {
				t.Fatal(err)
			}
			e, err := store.Execution(t.Context(), tenant.Default, id)
			if err != nil || strings.Contains(string(e.Payload), "canary") {
				t.Fatalf("stored: %.60s, %v", e.Payload, err)
			}
		}
		for _, a := range given { // what the server continues holding
			if strings.Contains(string(a.Payload), "canary") {
				t.Fatal("an attempt of the dispatcher has the value")
			}
		}
	})
}
