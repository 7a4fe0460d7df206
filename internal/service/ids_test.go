package service

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Jobs in a row that are alike get the ids of bundles; no other job does.
func TestIDsOfBundles(t *testing.T) {
	s := &Jobs{shared: &shared{}}
	at := func(t job.ScheduleType) (d job.Definition) {
		d.Schedule.Type = t
		return d
	}
	var defs []job.Definition
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
	ids := make([]job.ID, len(defs))
	for i, x := range s.identify(tenant.Default, defs, nil) {
		if ids[x.place] = x.id; x.place != i {
			t.Errorf("job %d stands at %d", x.place, i)
		}
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
	if one := s.identify(tenant.Default, make([]job.Definition, 1), nil); len(one) != 1 || one[0].id.IsZero() {
		t.Errorf("one job is %v", one)
	}
}

// Jobs of groups get the ids of bundles by the partitions of these, and those of one group in their order.
func TestIDsOfGroups(t *testing.T) {
	s := &Jobs{shared: &shared{}}
	defs, keys := make([]job.Definition, 1000), make([]string, 1000)
	for i := range defs {
		d := &defs[i]
		d.Schedule.Type, d.ConcurrencyKey, d.MaxConcurrent = job.Immediate, "payload.k", 5
		keys[i] = fmt.Sprint(i % 300)
		switch {
		case i%100 == 99: // no bundle can have it, and it has its place in its group all the same
			d.UniqueKey = keys[i]
		case i%100 == 98: // it is under a limit of its own
			d.ConcurrencyKey, keys[i] = "", ""
		case i%100 >= 90: // in no group, and enough of them in a row
			d.MaxConcurrent = 0
		}
	}
	all := s.identify(tenant.Default, defs, keys)
	byPlace := make([]identity, len(defs))
	for i, x := range all {
		if i > 0 && bytes.Compare(all[i-1].id[:], x.id[:]) >= 0 {
			t.Errorf("%s is listed behind %s", x.id, all[i-1].id)
		}
		if byPlace[x.place].id != (job.ID{}) {
			t.Errorf("job %d is listed twice", x.place)
		}
		byPlace[x.place] = x
	}
	last := map[job.GroupKey]job.ID{}
	sizes := map[[16]byte]int{}
	parts := map[[16]byte]job.Partition{}
	for i, x := range byPlace {
		j := job.Job{ID: x.id, Tenant: tenant.Default, Definition: defs[i]}
		if want := j.GroupOf(keys[i]); x.group != want {
			t.Errorf("job %d is in the group %v, want %v", i, x.group, want)
		}
		if was := last[x.group.Key]; x.group.Key != 0 && bytes.Compare(was[:], x.id[:]) >= 0 {
			t.Errorf("job %d comes before the one before it in its group", i)
		}
		last[x.group.Key] = x.id
		if defs[i].UniqueKey != "" || defs[i].ConcurrencyKey == "" || x.group.Key == 0 {
			continue
		}
		b, p := job.BundleOf(x.id), x.group.Partition()
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

// Jobs are stored, and their executions offered, in the order of their ids; they are answered in that of the request, whose first is
// the one that the audit log names.
func TestAnswersInTheOrderOfTheRequest(t *testing.T) {
	var stored engine.Creation
	var hinted []job.Ready
	s := New(fakeStore{create: func(_ context.Context, cs []engine.Creation) ([]engine.Created, error) {
		stored = cs[0]
		return []engine.Created{{Packed: true}}, nil
	}}, clock.System{}, Config{Hint: func(rs []job.Ready) { hinted = rs }})
	defs := make([]job.Definition, 500)
	for i := range defs {
		defs[i] = noop()
		defs[i].Name, defs[i].ConcurrencyKey, defs[i].MaxConcurrent, defs[i].Payload = fmt.Sprint(i), "payload", 5, fmt.Append(nil, i%100)
	}
	made, _, err := s.CreateJobs(t.Context(), tenant.Local(), defs, Once[[]NewJob]{})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range made {
		if m.Job.Name != fmt.Sprint(i) || m.Execution != job.ExecutionID(m.Job.ID) {
			t.Errorf("%d is answered with %s and %s", i, m.Job.Name, m.Execution)
		}
	}
	for i, r := range hinted {
		if j := &stored.Jobs[i]; r.ID != job.ExecutionID(j.ID) || stored.Executions[i].ID != r.ID || r.Packed != job.Bundled(r.ID) || r.Group.Key != stored.Executions[i].Group.Key {
			t.Errorf("%d: the job %s is stored, %s is offered as %+v", i, j.ID, r.ID, r)
		}
		if i > 0 && bytes.Compare(hinted[i-1].ID[:], r.ID[:]) >= 0 {
			t.Errorf("%s is offered behind %s", r.ID, hinted[i-1].ID)
		}
	}
	if len(made) != len(defs) || len(hinted) != len(defs) || stored.Entry == nil || stored.Entry.Object != made[0].Job.ID.String() || stored.Entry.Count != len(defs) {
		t.Errorf("%d made, %d offered, the entry is %+v", len(made), len(hinted), stored.Entry)
	}
}
