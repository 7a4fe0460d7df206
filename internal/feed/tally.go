package feed

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// How many counts are held in memory, and how many are written at once.
const (
	mostMinutes  = 50_000  // of tenants
	mostDays     = 300_000 // of jobs; a herd of schedules has this many
	mostFailures = 20_000
	mostUnknown  = 200_000 // ends of executions leased elsewhere
	mostPairs    = 1000    // different failures of different jobs per tenant and hour; the rest are counted as one
	mostPrints   = 2000    // messages whose fingerprints are remembered
	daysAtOnce   = 2000
	askedAtOnce  = 500
	askingTime   = time.Second // how long the store is asked, one request after the other
	soon         = time.Second // when there is more
	sampleBytes  = 500

	// lateAfter sets how late an execution counts as late.
	lateAfter = 5 * time.Second
)

// owner is the tenant and job of an execution, and how its day counts it.
type owner struct {
	tenant tenant.ID
	job    job.ID
	day    int64 // of its scheduled time, in seconds
	late   bool
}

func ownerOf(id job.ExecutionID, t tenant.ID, j job.ID, by job.Trigger, scheduled time.Time) owner {
	late := by == job.BySchedule && job.Delay(j, id, scheduled) > lateAfter
	return owner{t, j, dayOf(scheduled), late}
}

func dayOf(t time.Time) int64 { return t.UTC().Truncate(24 * time.Hour).Unix() }

// end is how an execution, or an attempt that is retried, ended.
type end struct {
	id     job.ExecutionID
	at     time.Time
	status job.Status // Retrying: another attempt follows
	why    *job.Error
}

type (
	minuteKey struct {
		tenant tenant.ID
		at     int64
	}
	dayKey struct {
		tenant tenant.ID
		job    job.ID
		day    int64
	}
	failureKey struct {
		tenant tenant.ID
		hour   int64
		print  job.Fingerprint
		job    job.ID
	}
	// pairs holds the failures of a tenant in an hour.
	pairs struct {
		hour int64
		seen map[failureKey]struct{}
	}
	dirtyMinute struct {
		engine.TenantMinute
		dirty bool
	}
	print struct {
		job.Fingerprint
		message string
	}
)

// tallies holds a server's counts by tenant and job that are not stored yet. The counter's lock guards it.
type tallies struct {
	minutes  map[minuteKey]*dirtyMinute
	days     map[dayKey]*engine.DayCounts
	failures map[failureKey]*engine.Failure
	unknown  []end
	pairs    map[tenant.ID]*pairs
	prints   map[job.Error]print

	number  int64
	sending *engine.Tally // under number, until the store has answered
	lost    int64         // that there was no room for
}

func newTallies() tallies {
	return tallies{
		minutes: map[minuteKey]*dirtyMinute{}, days: map[dayKey]*engine.DayCounts{}, failures: map[failureKey]*engine.Failure{},
		pairs: map[tenant.ID]*pairs{}, prints: map[job.Error]print{},
	}
}

// minute returns the minute of a tenant at an instant.
func (t *tallies) minute(of tenant.ID, at time.Time) *engine.TenantMinute {
	at = at.UTC().Truncate(time.Minute)
	k := minuteKey{of, at.Unix()}
	m := t.minutes[k]
	if m == nil {
		m = &dirtyMinute{TenantMinute: engine.TenantMinute{Tenant: of, At: at}}
		if len(t.minutes) < mostMinutes {
			t.minutes[k] = m
		} else {
			t.lost++
		}
	}
	m.dirty = true
	return &m.TenantMinute
}

// both calls f with the minute of a tenant, and with that of all tenants.
func (t *tallies) both(of tenant.ID, at time.Time, f func(*engine.TenantMinute)) {
	f(t.minute("", at))
	f(t.minute(of, at))
}

// started counts leased attempts.
func (t *tallies) started(as []job.Attempt, at time.Time) {
	all := t.minute("", at)
	var mine *engine.TenantMinute
	for i := range as {
		a := &as[i]
		if mine == nil || mine.Tenant != a.Tenant {
			mine = t.minute(a.Tenant, at)
		}
		for _, m := range [...]*engine.TenantMinute{all, mine} {
			m.Started++
			if !a.StartedAt.Equal(a.LeasedAt) {
				continue // it started before
			}
			wait := max(0, a.LeasedAt.Sub(a.DueAt))
			m.Waited++
			m.Wait, m.MaxWait = m.Wait+wait, max(m.MaxWait, wait)
			if a.Trigger == job.BySchedule {
				delay := job.Delay(a.Job, a.Execution, a.ScheduledAt)
				m.Delays[engine.DelayBucket(delay)]++
				m.MaxDelay = max(m.MaxDelay, delay)
			}
		}
	}
}

func (e *end) in(m *engine.TenantMinute) {
	switch e.status {
	case job.Succeeded:
		m.Succeeded++
	case job.Failed:
		m.Failed++
		m.Dead++
	case job.TimedOut:
		m.TimedOut++
		m.Dead++
	case job.Cancelled:
		m.Cancelled++
	case job.Expired, job.Skipped:
		m.Skipped++
	case job.Retrying:
		m.Retried++
	default:
	}
}

// ended counts an end whose owner is not known yet: at once for all tenants, later for the one.
func (t *tallies) ended(e end) {
	e.in(t.minute("", e.at))
	if len(t.unknown) < mostUnknown {
		t.unknown = append(t.unknown, e)
	} else {
		t.lost++
	}
}

// of counts an end for its owner.
func (t *tallies) of(o owner, e *end) {
	e.in(t.minute(o.tenant, e.at))
	if e.status == job.Failed || e.status == job.TimedOut || e.status == job.Retrying {
		t.failed(o, e)
	}
	if e.status == job.Retrying || job.ID(e.id) == o.job { // a one-off job's own fire has its id, and there is only one
		return
	}
	d := t.day(o.tenant, o.job, o.day)
	switch e.status {
	case job.Succeeded:
		d.Succeeded++
	case job.Failed:
		d.Failed++
	case job.TimedOut:
		d.TimedOut++
	case job.Cancelled:
		d.Cancelled++
	case job.Expired, job.Skipped:
		d.Skipped++
	default:
	}
	if o.late && e.status != job.Skipped && e.status != job.Expired {
		d.Late++
	}
}

func (t *tallies) day(of tenant.ID, j job.ID, day int64) *engine.DayCounts {
	k := dayKey{of, j, day}
	d := t.days[k]
	if d == nil {
		d = &engine.DayCounts{}
		if len(t.days) < mostDays {
			t.days[k] = d
		} else {
			t.lost++
		}
	}
	return d
}

// failed counts the error of an execution or an attempt.
func (t *tallies) failed(o owner, e *end) {
	why := e.why
	if why == nil {
		why = &job.Error{}
	}
	p, ok := t.prints[*why]
	if !ok {
		p.Fingerprint, p.message = why.Fingerprint()
		if len(t.prints) >= mostPrints {
			clear(t.prints)
		}
		if len(why.Message) <= sampleBytes {
			t.prints[*why] = p
		}
	}
	hour := e.at.UTC().Truncate(time.Hour)
	k := failureKey{o.tenant, hour.Unix(), p.Fingerprint, o.job}
	if !t.known(k) {
		k.print, k.job = job.Fingerprint{}, job.ID{}
	}
	f := t.failures[k]
	if f == nil {
		f = &engine.Failure{Tenant: o.tenant, Hour: hour, Fingerprint: k.print, Job: k.job, First: e.at}
		if k.print != (job.Fingerprint{}) {
			f.Type, f.Message, f.Sample = why.Type, p.message, cut(why.Message)
		}
		if len(t.failures) < mostFailures {
			t.failures[k] = f
		} else {
			t.lost++
		}
	}
	final, before := e.status != job.Retrying, f.Failed > 0
	if final {
		f.Failed++
	} else {
		f.Retried++
	}
	if final && !before || final == before && !e.at.Before(f.Last) {
		f.Execution = e.id
	}
	if e.at.Before(f.First) { // its owner was determined later
		f.First = e.at
	}
	if e.at.After(f.Last) {
		f.Last = e.at
	}
}

// known reports whether a failure is counted separately: it already was in its hour, or there are not too many.
func (t *tallies) known(k failureKey) bool {
	p := t.pairs[k.tenant]
	if p == nil || p.hour < k.hour {
		p = &pairs{hour: k.hour, seen: map[failureKey]struct{}{}}
		t.pairs[k.tenant] = p
	}
	if _, ok := p.seen[k]; ok {
		return true
	}
	if len(p.seen) >= mostPairs {
		return false
	}
	p.seen[k] = struct{}{}
	return true
}

func cut(s string) string {
	if len(s) > sampleBytes {
		s = s[:sampleBytes]
	}
	return strings.ToValidUTF8(s, "")
}

// skipped counts instants of a job that were not run.
func (t *tallies) skipped(of tenant.ID, j job.ID, scheduled, at time.Time, n int64) {
	t.both(of, at, func(m *engine.TenantMinute) { m.Skipped += n })
	t.day(of, j, dayOf(scheduled)).Skipped += n
}

// without counts an end without a result, whose owner is known.
func (t *tallies) without(x *engine.Ended, at time.Time) {
	e := end{id: x.Execution, at: at, status: x.Status, why: x.Error}
	e.in(t.minute("", at))
	t.of(ownerOf(x.Execution, x.Tenant, x.Job, x.Trigger, x.ScheduledAt), &e)
}

// passedOver counts instants that firings did not run, and executions that they replaced. One record may stand for
// many instants.
func (t *tallies) passedOver(fs []engine.Firing, ended []engine.Ended, at time.Time) {
	many := map[job.ExecutionID]int64{}
	for i := range fs {
		for _, e := range fs[i].Skips {
			n, err := strconv.ParseInt(e.Metadata["count"], 10, 64)
			if err != nil || n < 1 {
				n = 1
			}
			many[e.ID] = n
		}
	}
	for i := range ended {
		x := &ended[i]
		if n := many[x.Execution]; n > 0 {
			t.skipped(x.Tenant, x.Job, x.ScheduledAt, at, n)
			continue
		}
		t.without(x, at)
	}
}

// next returns what to write: what was not answered before, or a part of what has been counted since.
func (t *tallies) next(now time.Time) (*engine.Tally, int64) {
	if t.sending != nil {
		return t.sending, t.number
	}
	var out engine.Tally
	open := now // a minute that may still change is kept: each write replaces the one before
	if len(t.unknown) > 0 {
		open = t.unknown[0].at.Truncate(time.Minute)
	}
	for k, m := range t.minutes {
		switch {
		case m.dirty:
			out.Minutes = append(out.Minutes, m.TenantMinute)
			m.dirty = false
		case now.Sub(m.At) > keepOpen+time.Minute && m.At.Before(open):
			delete(t.minutes, k)
		}
	}
	for k, d := range t.days {
		if len(out.Days) == daysAtOnce {
			break
		}
		out.Days = append(out.Days, engine.JobDay{Tenant: k.tenant, Job: k.job, Day: time.Unix(k.day, 0).UTC(), DayCounts: *d})
		delete(t.days, k)
	}
	for k, f := range t.failures {
		if len(out.Failures) == daysAtOnce {
			break
		}
		out.Failures = append(out.Failures, *f)
		delete(t.failures, k)
	}
	maps.DeleteFunc(t.pairs, func(_ tenant.ID, p *pairs) bool { return now.Sub(time.Unix(p.hour, 0)) > 2*time.Hour })
	if len(out.Minutes)+len(out.Days)+len(out.Failures) == 0 {
		return nil, 0
	}
	t.number++
	t.sending = &out
	return t.sending, t.number
}

// tally stores the counts by tenant and job.
func (c *Counter) tally(ctx context.Context) (more bool, err error) {
	unasked := c.askAll(ctx) // what is known is written all the same
	c.mu.Lock()
	t, number := c.tallies.next(c.clock.Now())
	c.mu.Unlock()
	if t == nil {
		return c.left(), unasked
	}
	if err := c.store.KeepTally(ctx, c.id, number, *t); err != nil {
		return false, err
	}
	c.mu.Lock()
	c.tallies.sending = nil
	c.mu.Unlock()
	return c.left(), unasked
}

// askAll asks until nothing is left to ask, or time is up.
func (c *Counter) askAll(ctx context.Context) error {
	for began := c.clock.Now(); ; {
		left, err := c.ask(ctx)
		if err != nil || left == 0 || c.clock.Now().Sub(began) > askingTime {
			return err
		}
	}
}

// left reports whether there is more to write down, or to ask.
func (c *Counter) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tallies.days)+len(c.tallies.failures)+len(c.tallies.unknown) > 0
}

// Lost returns how many counts were dropped since the process started.
func (c *Counter) Lost() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tallies.lost
}

// askMargin is how long before its counted instant a finish may seem to be.
const askMargin = time.Hour

// ask determines the owners of some ends of executions that another server leased, and returns how many are left.
func (c *Counter) ask(ctx context.Context) (left int, err error) {
	c.mu.Lock()
	some := slices.Clone(c.tallies.unknown[:min(askedAtOnce, len(c.tallies.unknown))])
	c.mu.Unlock()
	if len(some) == 0 {
		return 0, nil
	}
	ids := make([]job.ExecutionID, len(some))
	for i := range some {
		ids[i] = some[i].id
	}
	found, err := c.store.Whose(ctx, ids, some[0].at.Add(-askMargin))
	if err != nil {
		return 0, err
	}
	whose := make(map[job.ExecutionID]owner, len(found))
	for _, o := range found {
		whose[o.Execution] = ownerOf(o.Execution, o.Tenant, o.Job, o.Trigger, o.ScheduledAt)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range some {
		if o, ok := whose[some[i].id]; ok {
			c.tallies.of(o, &some[i])
		} else {
			c.tallies.lost++
		}
	}
	if c.tallies.unknown = c.tallies.unknown[len(some):]; len(c.tallies.unknown) == 0 {
		c.tallies.unknown = nil
	}
	return len(c.tallies.unknown), nil
}
