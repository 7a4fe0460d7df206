package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// insert stores the chosen creations and fails if anything of them exists. Within tx their idempotency keys are
// stored already; without, it is its own transaction, in one round trip.
func (b batch) insert(ctx context.Context, c *pgx.Conn, tx pgx.Tx) error {
	many := b.pages != nil && (b.jobCount() >= copyFrom || b.pages.few)
	if tx == nil && many && !failpoint.Set("api.beforeCommit") && !b.hasManaged() && !b.hasRetentions() {
		return b.pipe(ctx, c)
	}
	q := &pgx.Batch{}
	if tx == nil {
		b.keys(idempotencyTable.arrays()).queue(q)
	}
	switch {
	case !many:
		js, ss, es := jobsTable.arrays(), schedulesTable.arrays(), liveTable.arrays()
		for i, j := range b.jobs {
			js.job(b.all[i].Tenant, j)
			ss.schedule(b.all[i].Tenant, j)
		}
		for i, f := range b.executions {
			es.execution(b.all[i].Tenant, f.Execution, f.tally)
		}
		js.queue(q)
		ss.queue(q)
		es.queue(q)
		b.managed(q)
		b.retentions(q)
		b.entries(auditTable.arrays()).queue(q)
		if tx != nil {
			return send(ctx, c, q)
		}
		return hitting(ctx, c, "api.beforeCommit", func() error { return send(ctx, c, q) })
	case tx == nil:
		return pgx.BeginFunc(ctx, c, func(pgx.Tx) error {
			if err := send(ctx, c, q); err != nil {
				return err
			}
			if err := b.copy(ctx, c); err != nil {
				return err
			}
			return failpoint.Hit("api.beforeCommit")
		})
	}
	return b.copy(ctx, c)
}

// pipe stores a large batch in one round trip.
func (b batch) pipe(ctx context.Context, c *pgx.Conn) error {
	size := len(b.pages.jobs.body) + len(b.pages.executions.body)
	p := pipe{out: slices.Grow(b.pages.out[:0], size+size/64+4096)}
	defer func() { b.pages.out = p.out }()
	p.query("BEGIN")
	if keys := (page{sheet: b.keys(idempotencyTable.copies(nil, 0))}); keys.rows > 0 {
		keys.mark(0)
		p.copy(&keys, []bool{true})
	}
	chosen := b.isChosen()
	p.copy(&b.pages.jobs, chosen)
	p.copy(&b.pages.schedules, chosen)
	p.copy(&b.pages.executions, chosen)
	p.copy(&b.pages.bundles, chosen)
	if entries := (page{sheet: b.entries(auditTable.copies(nil, 0))}); entries.rows > 0 {
		entries.mark(0)
		p.copy(&entries, []bool{true})
	}
	p.query("COMMIT")
	return p.run(ctx, c)
}

func send(ctx context.Context, c *pgx.Conn, q *pgx.Batch) error {
	if q.Len() == 0 {
		return nil
	}
	return c.SendBatch(ctx, q).Close()
}

// pages holds the rows of a large batch in the form of COPY. They are built before the transaction begins: one that
// is idle meanwhile would hold its locks, and might be ended for it.
type pages struct {
	jobs, schedules, executions, bundles page
	few                                  bool   // fewer than the number from which this is faster
	out                                  []byte // all of them, as they travel
}

type page struct {
	*sheet
	of   []int // the creation of each row …
	ends []int // … and where the row ends
}

// spare holds pages whose memory waits for the next batch: they are large and frequent.
var spare sync.Pool

const maxSpare = 32 << 20 // in bytes, so that a single large batch is not kept for long

// free returns the memory of pages that are no longer in use.
func (p *pages) free() {
	if p != nil && cap(p.jobs.body)+cap(p.executions.body)+cap(p.out) <= maxSpare {
		spare.Put(p)
	}
}

// blank returns pages without rows, with room for some of that many jobs.
func blank(n int) *pages {
	p, _ := spare.Get().(*pages)
	if p == nil {
		p = &pages{}
	}
	p.jobs.room(n, n*600)
	p.schedules.room(0, 0)
	p.executions.room(n, n*200)
	p.bundles.room(0, 0)
	return p
}

// room empties a page, and reserves space for rows and bytes.
func (p *page) room(rows, bytes int) {
	if p.sheet == nil {
		p.sheet = &sheet{}
	}
	p.body = slices.Grow(p.body[:0], bytes)
	p.of, p.ends = slices.Grow(p.of[:0], rows), slices.Grow(p.ends[:0], rows)
}

func (p *page) mark(creation int) {
	p.of, p.ends = append(p.of, creation), append(p.ends, len(p.body))
}

func (b batch) jobCount() (n int) {
	for _, i := range b.chosen {
		n += len(b.all[i].Jobs)
	}
	return n
}

// paged adds pages to the batch if it is large enough for COPY.
func (b batch) paged(p packing) batch {
	n := b.jobCount()
	if n < copyFrom && p != packAll {
		return b
	}
	var jobs, executions columnSet
	for _, j := range b.jobs {
		jobs |= jobHas(j)
	}
	for _, f := range b.executions {
		executions |= liveHas(f.Execution)
	}
	b.pages = blank(n)
	b.pages.jobs.sheet = jobsTable.copies(b.pages.jobs.body, jobFew&^jobs)
	b.pages.schedules.sheet = schedulesTable.copies(b.pages.schedules.body, 0)
	b.pages.executions.sheet = liveTable.copies(b.pages.executions.body, liveFew&^executions)
	for i, j := range b.jobs {
		b.pages.jobs.job(b.all[i].Tenant, j)
		b.pages.jobs.mark(i)
		if b.pages.schedules.schedule(b.all[i].Tenant, j) {
			b.pages.schedules.mark(i)
		}
	}
	b.pages.few = n < copyFrom
	b.pages.bundles.sheet = bundlesTable.copies(b.pages.bundles.body, 0)
	pack := packer{pages: b.pages, how: p}
	for i, f := range b.executions {
		pack.add(b.all[i].Tenant, i, f)
	}
	pack.flush()
	return b
}

// notePacked records which creations have bundles; it ignores those that were not stored.
func (b batch) notePacked() {
	if b.pages == nil {
		return
	}
	for _, i := range b.pages.bundles.of {
		b.out[i].Packed = true
	}
}

// isChosen returns, for each creation, whether it is to be stored.
func (b batch) isChosen() []bool {
	chosen := make([]bool, len(b.all))
	for _, i := range b.chosen {
		chosen[i] = true
	}
	return chosen
}

func (b batch) copy(ctx context.Context, c *pgx.Conn) error {
	is := b.isChosen()
	chosen := func(creation int) bool { return is[creation] }
	if err := b.pages.jobs.send(ctx, c, chosen); err != nil {
		return err
	}
	if err := b.pages.schedules.send(ctx, c, chosen); err != nil {
		return err
	}
	if err := b.pages.executions.send(ctx, c, chosen); err != nil {
		return err
	}
	if err := b.pages.bundles.send(ctx, c, chosen); err != nil {
		return err
	}
	q := &pgx.Batch{}
	b.managed(q)
	b.retentions(q)
	b.entries(auditTable.arrays()).queue(q)
	return send(ctx, c, q)
}

// send copies the rows of the chosen creations.
func (p *page) send(ctx context.Context, c *pgx.Conn, chosen func(creation int) bool) error {
	part := make([]byte, 0, min(len(p.body), copyBytes)+1024)
	sql := p.table.copy(p.none)
	start := 0
	for n, end := range p.ends {
		if chosen(p.of[n]) {
			part = append(part, p.body[start:end]...)
		}
		start = end
		if len(part) < copyBytes && n < len(p.ends)-1 || len(part) == 0 {
			continue
		}
		if _, err := c.PgConn().CopyFrom(ctx, copyReader(part), sql); err != nil {
			return err
		}
		part = part[:0]
	}
	return nil
}

// keys writes the idempotency keys, sorted: two calls that share some wait for each other in order.
func (b batch) keys(s *sheet) *sheet {
	var with []*engine.Creation
	for _, i := range b.chosen {
		if b.all[i].Idempotency.Key != "" {
			with = append(with, &b.all[i])
		}
	}
	slices.SortFunc(with, func(a, b *engine.Creation) int {
		return compareScoped(scoped{a.Tenant, a.Idempotency.Key}, scoped{b.Tenant, b.Idempotency.Key})
	})
	for _, c := range with {
		s.idempotency(c.Tenant, &c.Idempotency)
	}
	return s
}

func (s *sheet) idempotency(t tenant.ID, i *engine.Idempotency) {
	s.row()
	s.next().text(string(t))
	s.next().text(i.Key)
	s.next().bytes(i.Hash[:])
	s.next().bytes(notNil(i.Answer))
	s.next().time(i.Until)
}

// jobs lists the jobs of each creation in the order of their ids, so that those of a bundle are adjacent; those with
// keys sorted by these, for the same reason as idempotency keys.
func (b batch) jobs(yield func(creation int, j *job.Job) bool) {
	type keyed struct {
		scoped
		i int
		j *job.Job
	}
	var later []keyed
	for _, i := range b.chosen {
		c := &b.all[i]
		for n := range byID(c.Jobs) {
			if j := &c.Jobs[n]; j.Key != "" {
				later = append(later, keyed{scoped{c.Tenant, j.Key}, i, j})
			} else if !yield(i, j) {
				return
			}
		}
	}
	slices.SortFunc(later, func(a, b keyed) int { return compareScoped(a.scoped, b.scoped) })
	for _, k := range later {
		if !yield(k.i, k.j) {
			return
		}
	}
}

// byID lists the positions of jobs in the order of their ids.
func byID(jobs []job.Job) iter.Seq[int] {
	type place struct {
		high, low uint64 // of the id: the jobs themselves are far apart
		i         int
	}
	order, sorted := make([]place, len(jobs)), true
	for i := range order {
		id := &jobs[i].ID
		order[i] = place{binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint64(id[8:]), i}
		sorted = sorted && (i == 0 || order[i-1].high < order[i].high || order[i-1].high == order[i].high && order[i-1].low < order[i].low)
	}
	if !sorted {
		slices.SortFunc(order, func(a, b place) int { return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low)) })
	}
	return func(yield func(int) bool) {
		for _, p := range order {
			if !yield(p.i) {
				return
			}
		}
	}
}

// fired is an execution, and whether it is tallied at its end: all are, except the own fire of a one-off job, which
// was created with the job and has its id.
type fired struct {
	*job.Execution
	tally bool
}

// executions lists the executions; those with unique keys sorted, for the same reason.
func (b batch) executions(yield func(creation int, f fired) bool) {
	type unique struct {
		t tenant.ID
		i int
		f fired
	}
	var later []unique
	for _, i := range b.chosen {
		c := &b.all[i]
		recurs := map[job.ID]bool{} // usually empty, and then nothing is looked up
		for n := range c.Jobs {
			if j := &c.Jobs[n]; !j.Schedule.Type.OneOff() {
				recurs[j.ID] = true
			}
		}
		for n := range c.Executions {
			e := &c.Executions[n]
			f := fired{e, e.ID != job.ExecutionID(e.Job) || e.Trigger != job.BySchedule && e.Trigger != job.ByAPI || len(recurs) > 0 && recurs[e.Job]}
			if e.UniqueKey != "" {
				later = append(later, unique{c.Tenant, i, f})
			} else if !yield(i, f) {
				return
			}
		}
	}
	slices.SortFunc(later, func(a, b unique) int { return byUnique(a.t, a.f.Execution, b.t, b.f.Execution) })
	for _, u := range later {
		if !yield(u.i, u.f) {
			return
		}
	}
}
