package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIDs(t *testing.T) {
	const text = "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"
	id, err := ParseID(text)
	if err != nil || id.String() != text {
		t.Fatalf("got %v, %v", id, err)
	}
	x, err := ParseExecutionID(text)
	if err != nil || x.String() != text || x.At().UnixMilli() != 0x0190a6c87b3e {
		t.Errorf("got %v at %v, %v", x, x.At(), err)
	}
	w, err := ParseWorkerID(text)
	if err != nil || w.String() != text {
		t.Errorf("got %v, %v", w, err)
	}
	for _, bad := range []string{"", "x", text + "0", text[:35], "0190a6c8+7b3e-7cc0-8a1b-0123456789ab", "g190a6c8-7b3e-7cc0-8a1b-0123456789ab"} {
		if got, err := ParseID(bad); err == nil || !got.IsZero() {
			t.Errorf("%q: got %v, %v", bad, got, err)
		}
	}
	if !(WorkerID{}).IsZero() || !(ExecutionID{}).IsZero() || id.IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestPartitionsSpread(t *testing.T) {
	counts := make([]int, Partitions)
	var id ID
	const n = 64_000
	sum := sha256.Sum256([]byte("seed"))
	for range n {
		sum = sha256.Sum256(sum[:])
		copy(id[:], sum[:])
		p := PartitionOf(id)
		if p < 0 || p >= Partitions {
			t.Fatalf("partition %d", p)
		}
		counts[p]++
	}
	if slices.Min(counts) < n/Partitions*8/10 || slices.Max(counts) > n/Partitions*12/10 {
		t.Errorf("from %d to %d in a partition, want about %d", slices.Min(counts), slices.Max(counts), n/Partitions)
	}
}

// An id that is put into a partition is in it, is a UUIDv7 of the same instant, and still its own.
func TestIDsInPartitions(t *testing.T) {
	seen := map[ID]bool{}
	sum := sha256.Sum256([]byte("seed"))
	for n := range 64_000 {
		sum = sha256.Sum256(sum[:])
		var was ID
		copy(was[:], sum[:])
		was[6], was[8] = 0x70|was[6]&0xf, 0x80|was[8]&0x3f
		p := Partition(n % Partitions)
		id := was.In(p)
		if PartitionOf(id) != p || id[6]>>4 != 7 || id[8]>>6 != 0b10 || !bytes.Equal(id[:8], was[:8]) || seen[id] {
			t.Fatalf("%v in %d is %v", was, p, id)
		}
		seen[id] = true
	}
}

func TestIdempotencyKey(t *testing.T) {
	e := Execution{ID: ExecutionID{1}, Job: ID{2}, Trigger: BySchedule, ScheduledAt: time.Date(2026, 1, 2, 5, 4, 5, 0, time.FixedZone("", 7200))}
	sum := sha256.Sum256([]byte(e.Job.String() + ":2026-01-02T03:04:05Z"))
	if got, want := e.IdempotencyKey(), hex.EncodeToString(sum[:])[:32]; got != want {
		t.Errorf("scheduled: got %s, want %s", got, want)
	}
	e.Trigger = ByHand
	sum = sha256.Sum256([]byte(e.Job.String() + ":" + e.ID.String()))
	if got, want := e.IdempotencyKey(), hex.EncodeToString(sum[:])[:32]; got != want {
		t.Errorf("by hand: got %s, want %s", got, want)
	}
}

func TestNonce(t *testing.T) {
	e := Execution{ID: ExecutionID{15: 9}, Trigger: BySchedule}
	if e.Nonce() != 0 {
		t.Error("a scheduled fire has a nonce")
	}
	e.Trigger = ByHand
	if e.Nonce() <= 0 {
		t.Error("a manual one has none")
	}
	e.ID = ExecutionID{}
	if e.Nonce() != 1 {
		t.Error("a manual one of id zero has none")
	}
}

func TestFire(t *testing.T) {
	j := Job{ID: ID{8: 7}, Definition: Definition{Name: "n", Priority: 3, Retry: RetryPolicy{MaxRetries: 4}}}
	past := j.Fire(ExecutionID{1}, at.Add(-time.Hour), at)
	if !past.ScheduledAt.Equal(at.Add(-time.Hour)) || !past.DueAt.Equal(at) || past.MaxAttempts != 5 || past.Priority != 3 || past.Partition != PartitionOf(j.ID) {
		t.Errorf("past: %+v", past)
	}
	if future := j.Fire(ExecutionID{1}, at.Add(time.Hour), at); !future.DueAt.Equal(at.Add(time.Hour)) {
		t.Errorf("future: due at %v", future.DueAt)
	}
}

func TestDurations(t *testing.T) {
	e := Execution{StartedAt: at, FinishedAt: at.Add(time.Second)}
	if e.Duration() != time.Second || (Execution{StartedAt: at}).Duration() != 0 {
		t.Error("duration is wrong")
	}
	ms := at.UnixMilli() + 12
	e.ID = ExecutionID{byte(ms >> 40), byte(ms >> 32), byte(ms >> 24), byte(ms >> 16), byte(ms >> 8), byte(ms)}
	e.ScheduledAt = at.Add(300 * time.Microsecond)
	if got := e.TriggerDelay(); got != 12*time.Millisecond {
		t.Errorf("trigger delay %v", got)
	}
	e.ScheduledAt = at.Add(time.Hour)
	if got := e.TriggerDelay(); got != 0 {
		t.Errorf("staged early: %v", got)
	}
}

// A priority level is worth a minute of waiting, so a waiting execution overtakes anything in at most nine.
func TestRank(t *testing.T) {
	old := Ready{Priority: 10, DueAt: at}
	for m := range 20 {
		fresh := Ready{ID: ExecutionID{1}, Priority: 1, DueAt: at.Add(time.Duration(m)*time.Minute + time.Second)}
		if got, want := old.Before(fresh), m >= 9; got != want {
			t.Errorf("after %d minutes: first is %v, want %v", m, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.Custom(func(t *rapid.T) Ready {
			return Ready{ID: ExecutionID{15: rapid.Byte().Draw(t, "id")}, Priority: rapid.IntRange(1, 10).Draw(t, "p"), DueAt: at.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "s")) * time.Second)}
		})
		a, b, c := gen.Draw(t, "a"), gen.Draw(t, "b"), gen.Draw(t, "c")
		if a.Before(b) && b.Before(a) {
			t.Fatal("each is before the other")
		}
		if a.Before(b) && b.Before(c) && !a.Before(c) {
			t.Fatal("not transitive")
		}
		if a.Priority == b.Priority && a.DueAt.Before(b.DueAt) && !a.Before(b) {
			t.Fatal("not first in, first out")
		}
	})
}
