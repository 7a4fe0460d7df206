package archive

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var day = time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)

// source makes executions from a seed.
type source struct{ *rand.Rand }

func (s source) id(at time.Time) (u [16]byte) {
	binary.BigEndian.PutUint64(u[:], uint64(at.UnixMilli())<<16)
	binary.BigEndian.PutUint64(u[8:], s.Uint64())
	u[6], u[8] = 0x70|u[6]&0x0f, 0x80|u[8]&0x3f
	return u
}

func (s source) instant(within time.Duration) time.Time {
	return day.Add(time.Duration(s.Int64N(int64(within)))).Truncate(time.Microsecond)
}

func (s source) text() string {
	all := []string{"", "x", "connection refused", "Zeit ü 💥", strings.Repeat("long ", 300), "a \"quoted\"\nline\x00"}
	return all[s.IntN(len(all))]
}

func (s source) finished(jobs [][16]byte) engine.Finished {
	all := slices.DeleteFunc(job.Statuses(), func(x job.Status) bool { return !x.Final() })
	kinds := job.Triggers()
	e := job.Execution{
		FinishedAt: s.instant(24 * time.Hour), Tenant: tenant.ID(fmt.Sprint("tenant-", s.IntN(3))), Job: job.ID(jobs[s.IntN(len(jobs))]), JobName: s.text(),
		Status: all[s.IntN(len(all))], Trigger: kinds[s.IntN(len(kinds))], Attempt: s.IntN(4), Tries: s.IntN(4), Lost: s.IntN(2), MaxAttempts: 4, Priority: s.IntN(10), Partition: job.Partition(s.IntN(64)),
		Token: job.Token(s.Int64N(1 << 42)),
	}
	e.ScheduledAt = e.FinishedAt.Add(-time.Duration(s.IntN(3600*30)) * time.Second)
	e.DueAt, e.ID = e.ScheduledAt.Add(time.Second), job.ExecutionID(s.id(e.ScheduledAt))
	if s.IntN(4) > 0 {
		e.StartedAt, e.LeasedAt, e.Worker = e.DueAt, e.FinishedAt, s.id(day)
	}
	if s.IntN(3) == 0 {
		e.Error = &job.Error{Type: job.HTTPError, Message: s.text(), HTTPStatus: s.IntN(2) * 503}
		e.Response = &job.Response{HTTPStatus: 503, BodyPreview: s.text()}
	}
	switch s.IntN(3) {
	case 0:
		e.Payload, e.Result = []byte(`{"a":1}`), []byte(`"`+strings.Repeat("r", s.IntN(100))+`"`)
	case 1:
		e.Payload, e.RetryOf = []byte{}, s.id(day)
	}
	if e.Status == job.Skipped {
		e.Metadata = map[string]string{"reason": "overlap", "to": s.text()}
	}
	f := engine.Finished{Execution: e}
	if s.IntN(2) == 0 {
		f.Tags = []string{"nightly", s.text()}
	}
	for i := range s.IntN(3) {
		a := job.PastAttempt{Execution: e.ID, Token: job.Token(i + 1), Number: i + 1, StartedAt: e.DueAt, EndedAt: e.FinishedAt, Error: job.Error{Type: job.LeaseLost, Message: s.text(), HTTPStatus: i}}
		if i == 1 {
			a.Worker = s.id(day)
		}
		f.Attempts = append(f.Attempts, a)
		f.Events = append(f.Events, job.Event{At: e.DueAt, Kind: job.EventReleased, Attempt: i, Token: a.Token, Worker: a.Worker, Note: s.text()})
	}
	return f
}

func order(a, b engine.Finished) int {
	x, y := a.Execution, b.Execution
	return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), bytes.Compare(x.Job[:], y.Job[:]), x.FinishedAt.Compare(y.FinishedAt), bytes.Compare(x.ID[:], y.ID[:]))
}

// write writes n executions, and returns them with the file.
func write(t *testing.T, s source, n int) ([]engine.Finished, []byte, Sum) {
	t.Helper()
	jobs := [][16]byte{s.id(day), s.id(day), s.id(day), s.id(day), s.id(day)}
	var all []engine.Finished
	for range n {
		all = append(all, s.finished(jobs))
	}
	slices.SortFunc(all, order)
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for i := range all {
		if err := w.Write(&all[i]); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 { // small row groups, so that there are several
			if err := errors.Join(w.hand(), w.to.Flush()); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows, sum, err := w.Close()
	if err != nil || rows != int64(n) {
		t.Fatalf("%d rows, %v", rows, err)
	}
	return all, buf.Bytes(), sum
}

// What is written is read back, whole and in order, and its checksum is that of what was written.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := source{rand.New(rand.NewPCG(seed, 1))}
		all, file, sum := write(t, s, int(seed)*37+1)
		var got []engine.Finished
		n, read, err := Proof(bytes.NewReader(file), int64(len(file)), engine.ArchivedExecutions, func(f *engine.Finished) error {
			got = append(got, *f)
			return nil
		})
		if err != nil || n != int64(len(all)) || read != sum {
			t.Fatalf("seed %d: %d rows, %x, %v; want %d, %x", seed, n, read, err, len(all), sum)
		}
		for i := range all {
			if !reflect.DeepEqual(got[i], all[i]) {
				t.Fatalf("seed %d: read %+v\nwant %+v", seed, got[i], all[i])
			}
		}
	}
}

// A filter selects from a file what it selects from a list in memory, page by page.
func TestNewest(t *testing.T) {
	t.Parallel()
	s := source{rand.New(rand.NewPCG(7, 7))}
	all, file, _ := write(t, s, 1500)
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.groups) < 10 {
		t.Fatalf("%d row groups", len(f.groups))
	}
	some := all[700].Execution
	for i, filter := range []engine.ExecutionFilter{
		{Tenant: "tenant-1"}, {Tenant: "nobody"}, {Tenant: "tenant-0", Job: some.Job}, {Tenant: some.Tenant, Worker: some.Worker},
		{Tenant: "tenant-2", Statuses: []job.Status{job.Failed, job.TimedOut}}, {Tenant: "tenant-1", Triggers: []job.Trigger{job.ByHand}},
		{Tenant: "tenant-1", Text: "REFUSED"}, {Tenant: "tenant-1", Tag: "nightly"}, {Tenant: "tenant-0", JobName: "x"},
		{Tenant: "tenant-1", From: day.Add(-12 * time.Hour), Until: day.Add(time.Hour)}, {Tenant: "tenant-1", Finished: day.Add(12 * time.Hour)}, {Tenant: "tenant-1", Kept: day.Add(23 * time.Hour)},
	} {
		var want []job.Execution
		for _, x := range all {
			e := x.Execution
			if e.Tenant != filter.Tenant || !filter.Job.IsZero() && e.Job != filter.Job || !filter.Worker.IsZero() && e.Worker != filter.Worker ||
				len(filter.Statuses) > 0 && !slices.Contains(filter.Statuses, e.Status) || len(filter.Triggers) > 0 && !slices.Contains(filter.Triggers, e.Trigger) ||
				!filter.Mentions(&e) || filter.Tag != "" && !slices.Contains(x.Tags, filter.Tag) || filter.JobName != "" && e.JobName != filter.JobName ||
				e.ScheduledAt.Before(filter.From) || !filter.Until.IsZero() && !e.ScheduledAt.Before(filter.Until) || e.FinishedAt.Before(filter.Finished) || e.FinishedAt.Before(filter.Kept) {
				continue
			}
			want = append(want, e)
		}
		place := func(e job.Execution) engine.Place { return engine.Place{At: e.ScheduledAt, ID: e.ID} }
		slices.SortFunc(want, func(a, b job.Execution) int { return place(a).Compare(place(b)) })
		var got []job.Execution
		for span := (engine.Span{}); ; {
			page, _, err := f.Newest(t.Context(), &filter, span, 17)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page...)
			if len(page) < 17 {
				break
			}
			span.After = place(page[16])
		}
		if len(got) != len(want) || len(want) == 0 != (i == 1) {
			t.Fatalf("filter %d: %d executions, want %d", i, len(got), len(want))
		}
		for k := range want {
			if !reflect.DeepEqual(got[k], want[k]) {
				t.Fatalf("filter %d, row %d: %+v\nwant %+v", i, k, got[k], want[k])
			}
		}
		if len(want) > 3 { // down to a place and including it
			until := place(want[2])
			if page, _, err := f.Newest(t.Context(), &filter, engine.Span{Until: until}, 17); err != nil || len(page) != 3 {
				t.Errorf("filter %d: %d executions down to the third, %v", i, len(page), err)
			}
		}
	}
}

// An execution is found by its id, by its tenant only, and most row groups are not looked at.
func TestFind(t *testing.T) {
	t.Parallel()
	s := source{rand.New(rand.NewPCG(9, 9))}
	all, file, _ := write(t, s, 1500)
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for i := 0; i < len(all); i += 97 {
		e := all[i].Execution
		got, ok, err := f.Find(e.Tenant, e.ID)
		if err != nil || !ok || !reflect.DeepEqual(got, all[i]) {
			t.Fatalf("%v, %v: %+v\nwant %+v", ok, err, got, all[i])
		}
		if _, ok, err := f.Find("somebody", e.ID); err != nil || ok {
			t.Fatalf("another tenant found it: %v", err)
		}
		if _, ok, err := f.Find(e.Tenant, s.id(day)); err != nil || ok {
			t.Fatalf("an unknown one was found: %v", err)
		}
		for _, g := range f.groups {
			if may, _ := f.mayHold(g, e.Tenant, e.ID.String()); may {
				held++
			}
		}
	}
	if n := (len(all) + 96) / 97; held > 2*n {
		t.Errorf("%d row groups were looked at for %d executions", held, n)
	}
}

// Logs come back line by line, from any place on.
func TestLogs(t *testing.T) {
	t.Parallel()
	s := source{rand.New(rand.NewPCG(3, 3))}
	var buf bytes.Buffer
	w := NewLogWriter(&buf)
	var ids []job.ExecutionID
	for range 5 {
		e := job.Execution{Tenant: "acme", Job: s.id(day), ID: s.id(day)}
		ids = append(ids, e.ID)
		for attempt := 1; attempt <= 2; attempt++ {
			for from := 0; from < 1200; from += 400 {
				var lines []job.LogLine
				for i := range 400 {
					lines = append(lines, job.LogLine{At: day.Add(time.Duration(from+i) * time.Millisecond), Stream: "stdout", Text: fmt.Sprintf("%d of attempt %d", from+i, attempt)})
				}
				if err := w.Write(&e, engine.LogChunk{Token: job.Token(attempt * 10), Attempt: attempt, From: from, To: from + 400, Data: engine.EncodeLog(lines)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	rows, sum, err := w.Close()
	if err != nil || rows != 12_000 {
		t.Fatalf("%d, %v", rows, err)
	}
	file := buf.Bytes()
	if n, got, err := Proof(bytes.NewReader(file), int64(len(file)), engine.ArchivedLogs, nil); err != nil || n != rows || got != sum {
		t.Fatalf("read back %d, %v", n, err)
	}
	f, err := OpenLogs(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Lines("acme", ids[2], 0); err != nil || n != 2400 {
		t.Errorf("%d lines, %v", n, err)
	}
	if n, err := f.Lines("acme", ids[2], 2); err != nil || n != 1200 {
		t.Errorf("%d lines of the second attempt, %v", n, err)
	}
	if cs, err := f.Log("other", ids[2], engine.LogQuery{Chunks: 10}); err != nil || len(cs) != 0 {
		t.Errorf("another tenant read %d chunks, %v", len(cs), err)
	}
	n := 0
	for at := (job.LogPlace{}); ; {
		cs, err := f.Log("acme", ids[2], engine.LogQuery{From: at, Chunks: 2})
		if err != nil || len(cs) > 2 {
			t.Fatalf("%d chunks, %v", len(cs), err)
		}
		for _, c := range cs {
			lines, err := engine.DecodeLog(c.Data)
			if err != nil || c.To-c.From != len(lines) {
				t.Fatal(c.From, c.To, len(lines), err)
			}
			for i, l := range lines {
				if want := fmt.Sprintf("%d of attempt %d", n%1200, n/1200+1); l.Text != want || c.From+i != n%1200 || c.Attempt != n/1200+1 {
					t.Fatalf("line %d of attempt %d is %q, want %q", c.From+i, c.Attempt, l.Text, want)
				}
				n++
			}
			at = job.LogPlace{Token: c.Token, Line: c.To}
		}
		if len(cs) == 0 {
			break
		}
	}
	if n != 2400 {
		t.Errorf("read %d lines", n)
	}
}

// A file that is damaged anywhere is an error, and never another content.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := source{rand.New(rand.NewPCG(5, 5))}
	_, file, sum := write(t, s, 400)
	proof := func(b []byte) bool {
		n, got, err := Proof(bytes.NewReader(b), int64(len(b)), engine.ArchivedExecutions, nil)
		return err == nil && n == 400 && got == sum
	}
	if !proof(file) {
		t.Fatal("the file itself is refused")
	}
	for range 60 {
		bad := slices.Clone(file)
		bad[s.IntN(len(bad))] ^= byte(1 + s.IntN(255))
		if f, err := Open(bytes.NewReader(bad), int64(len(bad))); err == nil {
			_, _, _ = f.Newest(t.Context(), &engine.ExecutionFilter{Tenant: "tenant-1"}, engine.Span{}, 10) // it must not panic
		}
		proof(bad)
	}
	for _, n := range []int{0, 1, 10, len(file) / 2, len(file) - 1} {
		if proof(file[:n]) {
			t.Errorf("the first %d of %d bytes pass for the file", n, len(file))
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 {
		for pattern, n := range map[string]string{
			"^executions/year=2026/month=11/day=18/part-0000-[a-z2-7]{12}\\.parquet$":       Name(engine.ArchivedExecutions, Shared, "acme", day, 0),
			"^logs/tenant=acme/year=2026/month=11/day=18/part-0012-[a-z2-7]{12}\\.parquet$": Name(engine.ArchivedLogs, PerTenant, "acme", day, 12),
		} {
			if !regexp.MustCompile(pattern).MatchString(n) || seen[n] {
				t.Error(n)
			}
			seen[n] = true
		}
	}
}
