package archive

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// plain makes executions as most are: of a few jobs, that succeeded at the first attempt.
func plain(n int) (all []engine.Finished) {
	s := source{rand.New(rand.NewPCG(1, 1))}
	var jobs [][16]byte
	for range 100 {
		jobs = append(jobs, s.id(day))
	}
	for i := range n {
		at := s.instant(24 * time.Hour)
		e := job.Execution{
			ID: s.id(at), Tenant: "default", Job: jobs[i%len(jobs)], JobName: "send-invoice", Status: job.Succeeded, Trigger: job.BySchedule, ScheduledAt: at, DueAt: at,
			StartedAt: at.Add(time.Millisecond), LeasedAt: at.Add(time.Millisecond), FinishedAt: at.Add(20 * time.Millisecond), Attempt: 1, MaxAttempts: 4, Priority: 5, Token: job.Token(i),
			Worker: jobs[i%7], Payload: []byte(`{"invoice":"INV-2026-000123","customer":42,"currency":"EUR"}`), Result: []byte(`{"sent":true}`),
		}
		all = append(all, engine.Finished{Execution: e, Tags: []string{"billing"}})
	}
	slices.SortFunc(all, order)
	return all
}

// BenchmarkFile writes executions to a file, and proves it.
func BenchmarkFile(b *testing.B) {
	all := plain(50_000)
	var file bytes.Buffer
	pack := func() Sum {
		file.Reset()
		w := NewWriter(&file)
		for i := range all {
			if err := w.Write(&all[i]); err != nil {
				b.Fatal(err)
			}
		}
		_, sum, err := w.Close()
		if err != nil {
			b.Fatal(err)
		}
		return sum
	}
	sum := pack()
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			pack()
		}
		b.ReportMetric(float64(b.N*len(all))/b.Elapsed().Seconds(), "rows/s")
		b.ReportMetric(float64(file.Len())/float64(len(all)), "bytes/row")
	})
	b.Run("prove", func(b *testing.B) {
		for b.Loop() {
			if _, got, err := Proof(bytes.NewReader(file.Bytes()), int64(file.Len()), engine.ArchivedExecutions, nil); err != nil || got != sum {
				b.Fatal(err, got)
			}
		}
		b.ReportMetric(float64(b.N*len(all))/b.Elapsed().Seconds(), "rows/s")
	})
}
