package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// chunk returns a chunk of n lines after a head, whose text names their numbers.
func chunk(w job.WorkerID, l job.Lease, h job.LogHead, n int) engine.LogAppend {
	lines := make([]job.LogLine, n)
	for i := range lines {
		lines[i] = job.LogLine{At: time.Unix(1_800_000_000, 0).UTC(), Stream: job.LogStdout, Text: fmt.Sprint(h.Lines + i)}
	}
	to := job.LogHead{Lines: h.Lines + n, Bytes: h.Bytes + int64(10*n), Cut: h.Cut}
	return engine.LogAppend{Lease: l, Worker: w, From: h.Lines, To: to, Data: engine.EncodeLog(lines)}
}

// texts returns the lines of chunks, in order.
func texts(cs []engine.LogChunk) (out []string) {
	for _, c := range cs {
		for _, l := range must(engine.DecodeLog(c.Data)) {
			out = append(out, fmt.Sprint(c.Attempt, ":", l.Text))
		}
	}
	return out
}

func logs(t *testing.T, h Harness) {
	f := open(t, h)
	read := func(id job.ExecutionID, q engine.LogQuery) []engine.LogChunk {
		if q.Chunks == 0 {
			q.Chunks = 100
		}
		return must(f.Logs(f.ctx, tenant.Default, id, q))
	}
	put := func(as ...engine.LogAppend) []engine.LogAppended { return must(f.AppendLogs(f.ctx, as)) }

	t.Run("append and read", func(t *testing.T) {
		_, e := f.add("logs")
		w, as := f.take(e.ID)
		lease := as[0].Lease
		if got := read(e.ID, engine.LogQuery{}); len(got) != 0 || must(f.LogLines(f.ctx, tenant.Default, e.ID, 0)) != 0 {
			t.Errorf("before: %v", got)
		}
		var head job.LogHead
		for _, n := range []int{3, 1, 4} {
			a := chunk(w, lease, head, n)
			want := engine.LogAppended{Stored: true, Held: true, Head: a.To}
			if got := put(a); got[0] != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			head = a.To
		}
		got := read(e.ID, engine.LogQuery{})
		if d := cmp.Diff([]string{"1:0", "1:1", "1:2", "1:3", "1:4", "1:5", "1:6", "1:7"}, texts(got)); d != "" || got[1].From != 3 || got[1].To != 4 || got[1].Token != lease.Token {
			t.Errorf("read (-want +got):\n%s%+v", d, got)
		}
		for line, want := range map[int]int{0: 3, 2: 3, 3: 2, 4: 1, 5: 1, 7: 1, 8: 0, 900: 0} {
			if got := read(e.ID, engine.LogQuery{From: job.LogPlace{Token: lease.Token, Line: line}}); len(got) != want || want > 0 && got[0].To <= line {
				t.Errorf("from line %d: %d chunks, want %d", line, len(got), want)
			}
		}
		if got := read(e.ID, engine.LogQuery{Chunks: 2}); len(got) != 2 {
			t.Errorf("%d chunks, want 2", len(got))
		}
		if n := must(f.LogLines(f.ctx, tenant.Default, e.ID, 0)); n != 8 {
			t.Errorf("%d lines", n)
		}
		if _, err := f.Logs(f.ctx, "other", e.ID, engine.LogQuery{Chunks: 5}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("another tenant: %v", err)
		}
		if _, err := f.Logs(f.ctx, tenant.Default, newID(), engine.LogQuery{Chunks: 5}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		f.report(succeed(as[0]))
		if got := read(e.ID, engine.LogQuery{}); len(got) != 3 {
			t.Errorf("after its end: %d chunks", len(got))
		}
		must(f.Tidy(f.ctx))
		if got := read(e.ID, engine.LogQuery{}); len(got) != 3 {
			t.Errorf("after tidying: %d chunks", len(got))
		}
	})

	t.Run("a chunk that comes again is stored once", func(t *testing.T) {
		_, e := f.add("again")
		w, as := f.take(e.ID)
		one := chunk(w, as[0].Lease, job.LogHead{}, 2)
		put(one)
		if got := put(one)[0]; got.Stored || !got.Held || got.Head != one.To {
			t.Errorf("again: %+v", got)
		}
		ahead := chunk(w, as[0].Lease, job.LogHead{Lines: 5}, 1)
		if got := put(ahead)[0]; got.Stored || !got.Held || got.Head != one.To {
			t.Errorf("with a gap: %+v", got)
		}
		between := chunk(w, as[0].Lease, job.LogHead{Lines: 1}, 3)
		if got := put(between, chunk(w, as[0].Lease, one.To, 1), chunk(w, as[0].Lease, one.To, 2)); got[0].Stored || got[1].Stored == got[2].Stored {
			t.Errorf("overlapping: %+v", got)
		}
		cut := chunk(w, as[0].Lease, must(f.AppendLogs(f.ctx, []engine.LogAppend{one}))[0].Head, 1)
		cut.To.Cut = true
		put(cut)
		if got := put(one)[0]; got.Head != cut.To {
			t.Errorf("the head: %+v, want %+v", got, cut.To)
		}
	})

	t.Run("a stale lease stores nothing", func(t *testing.T) {
		_, e := f.add("stale")
		w, as := f.take(e.ID)
		first := chunk(w, as[0].Lease, job.LogHead{}, 1)
		put(first)
		must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{as[0].Lease}))
		second := chunk(w, as[0].Lease, first.To, 1)
		if got := put(second)[0]; got.Stored || got.Held {
			t.Errorf("released: %+v", got)
		}
		w2, bs := f.take(e.ID)
		if got := put(second)[0]; got.Stored || got.Held {
			t.Errorf("with another: %+v", got)
		}
		foreign := chunk(w, bs[0].Lease, job.LogHead{}, 1)
		if got := put(foreign)[0]; got.Stored || got.Held {
			t.Errorf("another worker with the token: %+v", got)
		}
		f.report(again(bs[0], f.now(), 1))
		if got := put(chunk(w2, bs[0].Lease, job.LogHead{}, 1))[0]; got.Stored || got.Held {
			t.Errorf("after its end: %+v", got)
		}
		w3, cs := f.take(e.ID)
		put(chunk(w3, cs[0].Lease, job.LogHead{}, 2))
		if d := cmp.Diff([]string{"1:0", "2:0", "2:1"}, texts(read(e.ID, engine.LogQuery{}))); d != "" {
			t.Errorf("all attempts (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"2:0", "2:1"}, texts(read(e.ID, engine.LogQuery{Attempt: 2}))); d != "" {
			t.Errorf("of one (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"2:0", "2:1"}, texts(read(e.ID, engine.LogQuery{From: job.LogPlace{Token: as[0].Token, Line: 1}}))); d != "" {
			t.Errorf("from the end of the first (-want +got):\n%s", d)
		}
		if all, two := must(f.LogLines(f.ctx, tenant.Default, e.ID, 0)), must(f.LogLines(f.ctx, tenant.Default, e.ID, 2)); all != 3 || two != 2 {
			t.Errorf("%d lines, %d of the second", all, two)
		}
	})

	t.Run("many at once", func(t *testing.T) {
		var ids []job.ExecutionID
		for i := range 8 {
			_, e := f.add(fmt.Sprint("busy ", i))
			ids = append(ids, e.ID)
		}
		w, as := f.take(ids...)
		var wg sync.WaitGroup
		for k := range 4 { // each writes all logs to their end, whatever others do
			wg.Go(func() {
				order := slices.Clone(as)
				if k%2 == 1 {
					slices.Reverse(order)
				}
				heads := make([]job.LogHead, len(order))
				for {
					var batch []engine.LogAppend
					var of []int
					for i, a := range order {
						if heads[i].Lines < 40 {
							batch, of = append(batch, chunk(w, a.Lease, heads[i], 1+(heads[i].Lines+k)%3)), append(of, i)
						}
					}
					if len(batch) == 0 {
						return
					}
					for n, got := range must(f.AppendLogs(f.ctx, batch)) {
						heads[of[n]] = got.Head
					}
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			got := texts(read(id, engine.LogQuery{Chunks: 1000}))
			for i, text := range got {
				if text != fmt.Sprint("1:", i) {
					t.Fatalf("line %d is %q", i, text)
				}
			}
			if len(got) < 40 || int64(len(got)) != must(f.LogLines(f.ctx, tenant.Default, id, 0)) {
				t.Errorf("%d lines", len(got))
			}
		}
	})
}
