package job

import (
	"testing"
	"time"
)

func TestWorkerState(t *testing.T) {
	for _, c := range []struct {
		w    Worker
		want WorkerState
	}{
		{Worker{Capacity: 2}, WorkerIdle},
		{Worker{Capacity: 2, Beat: Beat{Running: 1}}, WorkerActive},
		{Worker{Capacity: 2, Beat: Beat{Running: 2}}, WorkerBusy},
		{Worker{Capacity: 2, Beat: Beat{Running: 2, Draining: true}}, WorkerDraining},
		{Worker{Capacity: 2, Beat: Beat{Running: 2}, Ended: true}, WorkerDead},
	} {
		c.w.ExpiresAt = at.Add(time.Second)
		if got := c.w.State(at); got != c.want {
			t.Errorf("%+v: %v, want %v", c.w, got, c.want)
		}
		if got := c.w.State(at.Add(time.Second)); got != WorkerDead {
			t.Errorf("expired: %v", got)
		}
	}
}

func TestDead(t *testing.T) {
	for _, c := range []struct {
		s          Status
		e          *Error
		tries, max int
		want       DeadReason
	}{
		{Succeeded, nil, 0, 3, ""},
		{Cancelled, nil, 0, 3, ""},
		{Failed, &Error{Type: HTTPError}, 3, 3, DeadExhausted},
		{TimedOut, &Error{Type: TimeoutError}, 3, 3, DeadExhausted},
		{Failed, &Error{Type: HTTPError}, 1, 3, DeadForGood},
		{Failed, nil, 1, 3, DeadForGood},
		{Failed, &Error{Type: Poison}, 0, 3, DeadPoison},
	} {
		if got, ok := Dead(c.s, c.e, c.tries, c.max); got != c.want || ok != (c.want != "") {
			t.Errorf("%v after %d of %d: %q, %v", c.s, c.tries, c.max, got, ok)
		}
	}
}

func TestRerun(t *testing.T) {
	of := Job{ID: ID{2}, Tenant: "t", Definition: Definition{Name: "n", Priority: 5, Queue: DefaultQueue, Target: Target{Kind: HTTP, Timeout: time.Minute}, UniqueKey: "u", ExpiresAfter: time.Hour}}
	old := Execution{ID: ExecutionID{1}, Job: of.ID, JobName: "n", Tenant: "t", Status: Failed, Tries: 3, MaxAttempts: 3, Attempt: 4, Lost: 1, Priority: 2, Payload: []byte("old"), Token: 7}
	got := of.Rerun(old, ExecutionID{3}, ByRetry, nil, at)
	if got.RetryOf != old.ID || got.Status != Pending || got.Trigger != ByRetry || got.Tries != 0 || got.Attempt != 0 || got.Token != 0 || string(got.Payload) != "old" ||
		!got.DueAt.Equal(at) || got.Priority != 2 || got.Partition != PartitionOf(of.ID) || got.Class != "http" || got.MaxAttempts != 3 ||
		got.UniqueKey != "u" || !got.ExpiresAt.Equal(at.Add(time.Hour)) || got.Timeout != time.Minute {
		t.Errorf("got %+v", got)
	}
	if got := of.Rerun(old, ExecutionID{3}, ByRetry, []byte("new"), at); string(got.Payload) != "new" {
		t.Errorf("payload %s", got.Payload)
	}
	of.Group = Group{Key: 99, Max: 1}
	if got := of.Rerun(old, ExecutionID{3}, ByRetry, nil, at); got.Group != of.Group || got.Partition != of.Group.Partition() {
		t.Errorf("group %+v, partition %d", got.Group, got.Partition)
	}
}

func TestStatsFromBuckets(t *testing.T) {
	for _, d := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond, time.Second, time.Hour, 30 * 24 * time.Hour} {
		b := Bucket(d)
		if mid := BucketMiddle(b); (mid - d).Abs() > max(d/18, 2*time.Microsecond) {
			t.Errorf("%v is counted as %v", d, mid)
		}
	}
	counts := map[int]int64{Bucket(time.Millisecond): 95, Bucket(time.Second): 5}
	if got := P95(counts); got > 2*time.Millisecond {
		t.Errorf("95th percentile %v", got)
	}
	counts[Bucket(time.Second)]++
	if got := P95(counts); got < 900*time.Millisecond {
		t.Errorf("95th percentile %v", got)
	}
	if P95(nil) != 0 {
		t.Error("nothing counted has a percentile")
	}
}
