package service

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Jobs in a row that are alike get the ids of bundles; no other job does.
func TestIDsOfBundles(t *testing.T) {
	s := &Service{}
	at := func(t job.ScheduleType) (d job.Job) {
		d.Schedule.Type = t
		return d
	}
	var defs []job.Job
	for range 2*job.Bundle + 5 {
		defs = append(defs, at(job.Immediate))
	}
	defs = append(defs, at(job.Cron), at(job.OneTime))
	for range job.Bundle {
		d := at(job.Immediate)
		d.UniqueKey = "k"
		defs = append(defs, d)
	}
	for range job.Bundle {
		defs = append(defs, at(job.Immediate))
	}
	s.identify(defs)
	ids := make([]job.ID, len(defs))
	for i := range defs {
		ids[i] = defs[i].ID
	}
	of := map[[16]byte]int{}
	seen := map[job.ID]bool{}
	for i, id := range ids {
		if id.IsZero() || seen[id] {
			t.Errorf("job %d has the id %s", i, id)
		}
		seen[id] = true
		of[job.BundleOf(id)]++
		if i > 0 && job.BundleOf(ids[i-1]) == job.BundleOf(id) && job.PartitionOf(ids[i-1]) != job.PartitionOf(id) {
			t.Errorf("jobs %d and %d are in two partitions", i-1, i)
		}
	}
	for _, first := range []int{0, job.Bundle, len(defs) - job.Bundle} {
		if n := of[job.BundleOf(ids[first])]; n != job.Bundle {
			t.Errorf("the bundle of job %d has %d", first, n)
		}
	}
	if n := of[job.BundleOf(ids[2*job.Bundle])]; n != 5 {
		t.Errorf("the bundle of the rest has %d", n)
	}
	if want := 4 + len(defs) - 3*job.Bundle - 5; len(of) != want {
		t.Errorf("%d prefixes, want %d", len(of), want)
	}
	few := make([]job.Job, 1)
	if s.identify(few); few[0].ID.IsZero() {
		t.Error("one job has no id")
	}
}

// Jobs of groups get the ids of bundles by the partitions of these, and those of one group in their order.
func TestIDsOfGroups(t *testing.T) {
	s := &Service{}
	jobs, keys := make([]job.Job, 1000), make([]string, 1000)
	for i := range jobs {
		j := &jobs[i]
		j.Schedule.Type, j.ConcurrencyKey, j.MaxConcurrent = job.Immediate, "payload.k", 5
		keys[i] = fmt.Sprint(i % 300)
		j.Group = j.GroupOf(keys[i])
	}
	s.identify(jobs)
	last := map[string]job.ID{}
	sizes := map[[16]byte]int{}
	parts := map[[16]byte]job.Partition{}
	for i := range jobs {
		id := jobs[i].ID
		if was := last[keys[i]]; bytes.Compare(was[:], id[:]) >= 0 {
			t.Errorf("job %d of the group %s comes before the one before it", i, keys[i])
		}
		last[keys[i]] = id
		b, p := job.BundleOf(id), jobs[i].Group.Partition()
		if was, ok := parts[b]; ok && was != p {
			t.Errorf("a bundle of two partitions")
		}
		sizes[b]++
		parts[b] = p
	}
	if len(sizes) > 64*job.BundleLeast+1000/job.Bundle {
		t.Errorf("%d bundles", len(sizes))
	}
}
