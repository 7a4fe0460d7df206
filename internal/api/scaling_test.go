package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func TestScaling(t *testing.T) {
	var disp *dispatch.Dispatcher
	var out *delivery.Pipeline
	f := newFace(t, func(cfg *api.Config, _ engine.Store) { disp, out = cfg.Dispatch, cfg.Delivery })
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "queues": ["default"], "capacity": 7}`)
	for range 25 {
		want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
	}
	want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "slow", "queue": "slow", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	for range 4 {
		want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 5}`, "X-Worker-Session", s.Session)
	}
	want[client.Problem](f, 400, "GET", "/api/v1/admin/scaling?queues=slow", "")
	got := want[client.Scaling](f, 200, "GET", "/api/v1/admin/scaling", "")
	expected := client.Scaling{Waiting: 22, Running: 4, Slots: 7, DesiredWorkers: 3, Queues: []client.QueueScaling{
		{Queue: "default", Waiting: 21, Running: 4, Slots: 7, DesiredWorkers: 3}, {Queue: "slow", Waiting: 1, DesiredWorkers: 1},
	}}
	if d := cmp.Diff(expected, got); d != "" {
		t.Errorf("scaling (-want +got):\n%s", d)
	}
	// Of some queues: KEDA fails where a queue in which nothing is were missing.
	some := want[client.Scaling](f, 200, "GET", "/api/v1/admin/scaling?queue=slow,idle,slow", "")
	expected = client.Scaling{Waiting: 1, DesiredWorkers: 1, Queues: []client.QueueScaling{{Queue: "idle"}, {Queue: "slow", Waiting: 1, DesiredWorkers: 1}}}
	if d := cmp.Diff(expected, some); d != "" {
		t.Errorf("scaling of some queues (-want +got):\n%s", d)
	}
	both := want[client.Scaling](f, 200, "GET", "/api/v1/admin/scaling?queue=slow,default", "")
	if both.Waiting != 22 || both.Running != 4 || both.Slots != 7 || len(both.Queues) != 2 {
		t.Errorf("scaling of both: %+v", both)
	}
	door := api.NewDoor(disp, out, clock.System{})
	for _, x := range []struct {
		kinds  []string
		target string
		most   int
		want   int
	}{{[]string{"send-email"}, "worker", 100, 21}, {[]string{"send-email"}, "worker", 8, 8}, {nil, "simulate", 8, 1}, {[]string{"other"}, "worker", 8, 0}} {
		session, err := door.Register(context.Background(), client.Registration{Kinds: x.kinds, Targets: []string{x.target}, Capacity: 1})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := door.Waiting(t.Context(), session, x.most); err != nil || n != x.want {
			t.Errorf("%v: %d wait, %v; want %d", x, n, err, x.want)
		}
	}
}

// A long queue is counted so far as a scale needs, also where it is one job's; and slots are those of all workers.
func TestScalingOfALongQueue(t *testing.T) {
	f := newFace(t)
	want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["a"], "queues": ["a"], "capacity": 7}`)
	want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["b"], "queues": ["b"], "capacity": 5}`)
	one := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "one", "queue": "a", "execution": {"target": "worker", "kind": "a"}, "schedule": {"type": "INTERVAL", "every": "24h"}}`)
	for range 450 {
		want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+one.JobID+"/trigger", "")
	}
	batch := "[" + strings.Repeat(`{"name": "b", "queue": "b", "execution": {"target": "worker", "kind": "b"}},`, 9999) + `{"name": "b", "queue": "b", "execution": {"target": "worker", "kind": "b"}}]`
	for range 2 {
		want[map[string]any](f, 201, "POST", "/api/v1/jobs:batch", batch)
	}
	got := want[client.Scaling](f, 200, "GET", "/api/v1/admin/scaling", "")
	if got.Slots != 12 || len(got.Queues) != 3 {
		t.Fatalf("scaling: %+v", got)
	}
	a, b := got.Queues[0], got.Queues[1]
	if a.Queue != "a" || a.Waiting != 450 || a.DesiredWorkers != 45 || a.Slots != 7 {
		t.Errorf("queue a: %+v", a)
	}
	if b.Queue != "b" || b.Waiting < 10_000 || b.DesiredWorkers != 1000 || b.Slots != 5 {
		t.Errorf("queue b: %+v", b)
	}
}

// An autoscaler needs no key that can do more than workers can: the one for workers of all tenants is enough, and none of a single tenant.
func TestScalingWithAWorkersKey(t *testing.T) {
	m := newMatrix(t)
	k := want[client.APIKey](m.face, 201, "POST", "/api/v1/api-keys", `{"tenant_id": "*", "name": "keda", "role": "worker"}`, "Authorization", m.system)
	want[client.Scaling](m.face, 200, "GET", "/api/v1/admin/scaling", "", "Authorization", "Bearer "+*k.Key)
	want[client.Scaling](m.face, 200, "GET", "/api/v1/admin/scaling", "", "Authorization", m.system)
	for role, key := range m.keys[mine] {
		if role != tenant.System {
			m.refused(403, "forbidden", "GET", "/api/v1/admin/scaling", "", "Authorization", key)
		}
	}
}
