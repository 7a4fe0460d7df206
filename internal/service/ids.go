package service

import (
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// identity identifies a job to be created: its id, and the group derived from its concurrency key, or from the id.
type identity struct {
	place int // of its definition
	id    job.ID
	group job.Group
}

// identify gives jobs their ids, and lists them in the order of these. Consecutive one-off jobs share a partition, so
// that what is stored together is adjacent in the store's order of ready executions; only a few do, since a
// dispatcher reads all partitions in parallel. Jobs that fire at once and differ only in what they do get the ids of
// bundles, by which a store may keep them together: consecutive ones or, if they are of groups, those of one
// partition, in their order. keys are the values of the concurrency keys.
func (s *Jobs) identify(t tenant.ID, defs []job.Definition, keys []string) []identity {
	ids := identities{out: make([]identity, 0, len(defs)), all: len(defs)}
	for i := 0; i < len(defs); {
		d := &defs[i]
		var g job.Group
		if d.ConcurrencyKey != "" {
			g = d.GroupOf(t, keys[i])
		}
		if g.Key != 0 && len(defs) >= job.Bundle {
			if alike(d) {
				ids.wait(i, g)
				i++
				continue
			}
			ids.bundle(g.Partition()) // earlier ones of its group have lesser ids
		}
		if row := inARow(defs[i:]); row >= job.BundleLeast {
			made := job.BundleIDs(newID(), s.place(job.Bundle), row)
			for n := range row {
				ids.out = append(ids.out, identity{place: i + n, id: made[n]})
			}
			i += row
			continue
		}
		x := identity{place: i, id: newID(), group: g}
		if d.Schedule.Type.OneOff() {
			x.id = x.id.In(s.place(1))
		}
		if d.ConcurrencyKey == "" {
			x.group = d.GroupOf(t, x.id.String())
		}
		ids.out = append(ids.out, x)
		i++
	}
	for p := range ids.chains {
		ids.bundle(job.Partition(p))
	}
	return ids.out
}

// identities are those of jobs to be created together, and the jobs that wait for others with which they may share a
// bundle: for each partition a chain of them.
type identities struct {
	out    []identity
	all    int
	chains [job.Partitions]chain
	links  []link // by place
}

// chain holds the first and the last index of the waiting ones, and their number.
type chain struct{ first, last, n int }

// link is a waiting one, and the next after it.
type link struct {
	group job.Group
	next  int
}

// wait makes a job wait for others of its partition; when they fill a bundle, they become one.
func (ids *identities) wait(place int, g job.Group) {
	if ids.links == nil {
		ids.links = make([]link, ids.all)
	}
	ids.links[place].group = g
	c := &ids.chains[g.Partition()]
	if c.n == 0 {
		c.first = place
	} else {
		ids.links[c.last].next = place
	}
	c.last = place
	if c.n++; c.n == job.Bundle {
		ids.bundle(g.Partition())
	}
}

// bundle gives the waiting ones of a partition the ids of one bundle, unless they are too few.
func (ids *identities) bundle(p job.Partition) {
	c := &ids.chains[p]
	if c.n == 0 {
		return
	}
	var made [job.Bundle]job.ID
	if c.n >= job.BundleLeast {
		made = job.BundleIDs(newID(), p, c.n)
	}
	for n, place := 0, c.first; n < c.n; n, place = n+1, ids.links[place].next {
		if made[n].IsZero() {
			made[n] = newID()
		}
		ids.out = append(ids.out, identity{place, made[n], ids.links[place].group})
	}
	c.n = 0
}

// alike reports whether a job fires at once, and only its group distinguishes it from others of its kind.
func alike(d *job.Definition) bool {
	return d.Schedule.Type == job.Immediate && d.UniqueKey == "" && !d.Asleep
}

// inARow returns how many definitions, from the first on, are alike and without their own limit; at most a bundle.
func inARow(defs []job.Definition) (n int) {
	for n < min(len(defs), job.Bundle) && alike(&defs[n]) && defs[n].MaxConcurrent == 0 && defs[n].Rate.IsZero() {
		n++
	}
	return n
}

// place returns the partition of the next one-off jobs.
func (s *Jobs) place(n uint64) job.Partition {
	return job.Partition((s.placed.Add(n) - 1) / job.Bundle % job.Partitions)
}
