package api_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/handout"
)

func TestScaling(t *testing.T) {
	var disp *dispatch.Dispatcher
	var out *handout.Desk
	f := newFace(t, func(cfg *api.Config, _ engine.Store) { disp, out = cfg.Dispatch, cfg.Handout })
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "queues": ["default"], "capacity": 7}`)
	for range 25 {
		want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
	}
	want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "slow", "queue": "slow", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	for range 4 {
		want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 5}`, "X-Worker-Session", s.Session)
	}
	got := want[client.Scaling](f, 200, "GET", "/api/v1/admin/scaling", "")
	expected := client.Scaling{Waiting: 22, Running: 4, Slots: 7, DesiredWorkers: 3, Queues: []client.QueueScaling{
		{Queue: "default", Waiting: 21, Running: 4, Slots: 7, DesiredWorkers: 3}, {Queue: "slow", Waiting: 1, DesiredWorkers: 1},
	}}
	if d := cmp.Diff(expected, got); d != "" {
		t.Errorf("scaling (-want +got):\n%s", d)
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
