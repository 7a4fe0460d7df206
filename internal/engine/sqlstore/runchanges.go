package sqlstore

import (
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// changes gathers what was decided about several runs, and writes all of it in a few statements.
type changes struct {
	tx RunTx

	begin, parks, retried, begun, over, drops, ends, forgets, results, members, overWaits, shutWaits, waits, attempts, saves [][]any
	waiting                                                                                                                  []Waiting
	cancels                                                                                                                  []cancelling
	finishes                                                                                                                 []job.Finish
	finished                                                                                                                 []*engine.RunChanged // of finishes
	entries                                                                                                                  []*audit.Entry
	claims                                                                                                                   []claim
}

// claim is an idempotency key that a change is made under.
type claim struct {
	tenant tenant.ID
	once   engine.Idempotency
}

// cancelling is a run of which nodes are asked to stop, or whose runs below are paused or go on.
type cancelling struct {
	run  *engine.WorkflowRun
	now  time.Time
	next *engine.RunChange
	out  *engine.RunChanged
}

// fold notes how members ended, and drops their marks.
func (c *changes) fold(marks []engine.RunMark) {
	for _, m := range marks {
		c.drops = append(c.drops, []any{[16]byte(m.Execution), int64(m.Place)})
		if m.Place >= 0 {
			c.ends = append(c.ends, []any{[16]byte(m.Execution), int(m.Status), m.StartedAt, m.FinishedAt})
		}
	}
}

// add notes what was decided about a run; out is told what comes of it.
func (c *changes) add(run engine.WorkflowRun, now time.Time, next *engine.RunChange, out *engine.RunChanged) error {
	out.Run = run.ID
	if err := c.renumber(&run, next); err != nil {
		return err
	}
	id := [16]byte(run.ID)
	for _, n := range next.Forget {
		c.forgets = append(c.forgets, []any{id, int64(engine.PlaceOf(n, -1)), int64(engine.PlaceOf(n+1, -1))})
	}
	kept := map[engine.NodePlace]int{} // the latest result of a place counts, and one statement writes it once
	for _, r := range next.Results {
		row := []any{id, int64(r.Place), string(run.Tenant), r.Result, engine.EncodeEnd(r.Error, nil)}
		if i, ok := kept[r.Place]; ok {
			c.results[i] = row
			continue
		}
		kept[r.Place] = len(c.results)
		c.results = append(c.results, row)
	}
	spans := map[int]bool{}
	for _, n := range next.Began {
		if !spans[n] {
			spans[n] = true
			c.begun = append(c.begun, []any{id, int64(engine.PlaceOf(n, -1)), string(run.Tenant), now})
		}
	}
	for _, n := range next.Over {
		c.over = append(c.over, []any{id, int64(engine.PlaceOf(n, -1)), now})
	}
	if next.Attempt > 1 {
		if err := c.again(&run, next); err != nil {
			return err
		}
	}
	for i := range next.Members {
		m := &next.Members[i]
		c.members = append(c.members, []any{[16]byte(m.Execution.ID), id, int64(m.Place), next.Attempt, string(run.Tenant), now, m.Target})
		c.waiting = append(c.waiting, Waiting{run.Tenant, &m.Execution})
		if m.Execution.Status != job.Waiting {
			out.Ready = append(out.Ready, m.Execution.Ready())
		}
	}
	c.wait(&run, next)
	if len(next.Cancel) > 0 || next.Pause != nil {
		c.cancels = append(c.cancels, cancelling{&run, now, next, out})
	}
	if next.Entry != nil {
		c.entries = append(c.entries, next.Entry)
	}
	if next.Once.Key != "" {
		c.claims = append(c.claims, claim{run.Tenant, next.Once})
	}
	if len(c.begin) > 0 && !next.Ended && next.Next == nil {
		return nil // it is stored as it is
	}
	return c.save(&run, now, next, out)
}

// aside is where the places of nodes are while they are renumbered.
const aside = 1 << 48

// renumber gives what is kept of nodes the numbers that they have in another version.
func (c *changes) renumber(run *engine.WorkflowRun, next *engine.RunChange) error {
	for _, table := range []string{"run_members", "run_results", "run_spans"} {
		var moves, drops [][]any
		for n, m := range next.Renumber {
			from, until := int64(engine.PlaceOf(n, -1)), int64(engine.PlaceOf(n+1, -1))
			if m < 0 {
				drops = append(drops, []any{[16]byte(run.ID), from, until})
			} else {
				moves = append(moves, []any{[16]byte(run.ID), from, until, aside + int64(engine.PlaceOf(m, -1)) - from})
			}
		}
		if err := c.tx.ExecEach("DELETE FROM "+table+" WHERE run = $1 AND place >= $2 AND place < $3", drops); err != nil {
			return err
		}
		if err := c.tx.ExecEach("UPDATE "+table+" SET place = place + $4 WHERE run = $1 AND place >= $2 AND place < $3", moves); err != nil {
			return err
		}
		if len(moves) > 0 {
			if _, err := c.tx.Exec("UPDATE "+table+" SET place = place - $2 WHERE run = $1 AND place >= $2", [16]byte(run.ID), int64(aside)); err != nil {
				return err
			}
		}
	}
	return nil
}

// again names the executions that members run again. They are no dead letters any more.
func (c *changes) again(run *engine.WorkflowRun, next *engine.RunChange) error {
	of := map[engine.NodePlace]int{}
	type span struct{ from, until engine.NodePlace }
	spans := map[int]span{} // by node
	for i, m := range next.Members {
		of[m.Place] = i
		s, ok := spans[m.Place.Node()]
		if !ok {
			s = span{m.Place, m.Place}
		}
		spans[m.Place.Node()] = span{min(s.from, m.Place), max(s.until, m.Place)}
	}
	scan := func(r Row) (m engine.Member, err error) {
		return m, r.Scan((*[16]byte)(&m.Execution), (*int64)(&m.Place))
	}
	for _, s := range spans {
		before, err := all(c.tx, scan, beforeSQL, [16]byte(run.ID), int64(s.from), int64(s.until))
		if err != nil {
			return err
		}
		for _, m := range before { // the latest comes last
			if i, ok := of[m.Place]; ok {
				next.Members[i].Execution.RetryOf = m.Execution
			}
		}
	}
	for i := range next.Members {
		if of := next.Members[i].Execution.RetryOf; !of.IsZero() {
			c.retried = append(c.retried, []any{string(run.Tenant), [16]byte(of)})
		}
	}
	return nil
}

// wait notes the waits that begin and those that are over.
func (c *changes) wait(run *engine.WorkflowRun, next *engine.RunChange) {
	id := [16]byte(run.ID)
	if next.Ended {
		c.overWaits = append(c.overWaits, []any{id})
		return
	}
	for _, w := range next.Closed {
		c.shutWaits = append(c.shutWaits, []any{id, w.Node, int(w.Kind)})
	}
	type waitKey struct {
		node int
		kind engine.WaitKind
	}
	kept := map[waitKey]int{}
	for _, w := range next.Waits {
		row := waitRow(run, w)
		key := waitKey{w.Node, w.Kind}
		if i, ok := kept[key]; ok {
			c.waits[i] = row
			continue
		}
		kept[key] = len(c.waits)
		c.waits = append(c.waits, row)
	}
}

// waitRow is a wait as putWaitSQL stores it.
func waitRow(run *engine.WorkflowRun, w engine.RunWait) []any {
	return []any{
		[16]byte(run.ID), string(run.Tenant), w.Node, int(w.Kind), w.BegunAt, w.WakeAt, w.Until, w.Event, digestOf(w.Match), w.Match, w.Votes, w.Asks, w.Schema, w.Voters,
	}
}

// save notes the run as it is now, and the end of its own execution: under the lease that the run has. If that is held under another
// by now, whoever holds it finds the run ended.
func (c *changes) save(run *engine.WorkflowRun, now time.Time, next *engine.RunChange, out *engine.RunChanged) error {
	execution, token := run.Execution, run.Token
	if next.Next != nil {
		c.attempts = append(c.attempts, []any{[16]byte(execution), [16]byte(run.ID), string(run.Tenant)})
		c.retried = append(c.retried, []any{string(run.Tenant), [16]byte(execution)})
		var err error
		execution = next.Next.ID
		if token, err = c.tx.AddParked(next.Next); err != nil {
			return err
		}
	}
	if next.Finish != nil {
		next.Finish.Outcome.Lease = job.Lease{Execution: execution, Token: token}
		c.finishes, c.finished = append(c.finishes, *next.Finish), append(c.finished, out)
	}
	var ended time.Time
	if next.Ended {
		if ended = run.EndedAt; ended.IsZero() || next.Next != nil {
			ended = now
		}
	}
	c.saves = append(c.saves, []any{[16]byte(run.ID), [16]byte(execution), int64(token), next.Version, next.Attempt, next.Status, next.State,
		next.Input, next.Output, engine.EncodeEnd(next.Error, nil), ended, run.Seq})
	return nil
}

// write writes everything that was noted; nothing may be read or written after it. What a cancel or a finish ends needs the state that is saved before it.
func (c *changes) write() error {
	for _, x := range c.claims {
		if _, known, err := c.tx.Claim(x.tenant, &x.once); err != nil {
			return err
		} else if known { // since the caller asked Answered
			return engine.ErrConflict
		}
	}
	var all []Bulk
	for _, b := range []Bulk{
		{SQL: insertRunSQL, Rows: c.begin, Each: errBegun}, {SQL: parkRunSQL, Rows: c.parks, Each: engine.ErrConflict}, {SQL: foldedSQL, Rows: c.ends}, {SQL: dropMarkSQL, Rows: c.drops},
		{SQL: dropResultsSQL, Rows: c.forgets}, {SQL: putResultSQL, Rows: c.results}, {SQL: beganSQL, Rows: c.begun}, {SQL: overSQL, Rows: c.over}, {SQL: insertMemberSQL, Rows: c.members},
		{SQL: dropWaitsSQL, Rows: c.overWaits}, {SQL: dropWaitSQL, Rows: c.shutWaits}, {SQL: putWaitSQL, Rows: c.waits},
		{SQL: exhumeSQL, Rows: c.retried}, {SQL: keepAttemptSQL, Rows: c.attempts}, {SQL: saveRunSQL, Rows: c.saves, Each: engine.ErrConflict},
	} {
		if len(b.Rows) > 0 {
			all = append(all, b)
		}
	}
	if len(all)+len(c.waiting) > 0 {
		write := c.tx.WriteAll
		if len(c.cancels)+len(c.finishes)+len(c.entries) == 0 {
			write = c.tx.WriteLast
		}
		if err := write(all, c.waiting); err != nil {
			return err
		}
	}
	for _, x := range c.cancels {
		if err := c.cancel(x); err != nil {
			return err
		}
	}
	if len(c.finishes) > 0 {
		done, err := c.tx.FinishExecutions(c.finishes)
		if err != nil {
			return err
		}
		for i, d := range done {
			out := c.finished[i]
			if len(d.Ended) > 0 {
				out.Released = c.finishes[i].Outcome.Lease
			}
			out.Ended, out.Runs = append(out.Ended, d.Ended...), append(out.Runs, d.Runs...)
			out.Tokens = out.Tokens || d.Tokens
		}
	}
	for _, e := range c.entries {
		if err := c.tx.Record(e); err != nil {
			return err
		}
	}
	return nil
}

// cancel asks the live executions of nodes to stop, as many as one commit should, and the runs below what is asked of them.
func (c *changes) cancel(x cancelling) error {
	x.out.Asked = true
	if x.next.Pause != nil {
		status := job.Running
		if *x.next.Pause {
			status = job.Waiting
		}
		if err := c.askBelow(x, 0, 1<<62, engine.AskedToPause(x.run.Seq), status); err != nil {
			return err
		}
	}
	left := engine.StopsAtOnce
	var rest [][]any
	for _, n := range x.next.Cancel {
		from, until := max(engine.PlaceOf(n.Node, -1), n.After+1), engine.PlaceOf(n.Node+1, -1)
		if n.After == 0 {
			from = engine.PlaceOf(n.Node, -1)
		}
		last := from - 1
		var ids []job.ExecutionID
		err := c.tx.Query(func(r Row) error {
			var id job.ExecutionID
			err := r.Scan((*[16]byte)(&id), (*int64)(&last))
			ids = append(ids, id)
			return err
		}, liveMembersSQL, [16]byte(x.run.ID), int64(from), int64(until), left)
		if err != nil {
			return err
		}
		if len(ids) == left { // there may be more
			rest = append(rest, waitRow(x.run, engine.RunWait{Node: n.Node, Kind: engine.WaitStop, BegunAt: x.now, WakeAt: x.now, Event: strconv.FormatInt(int64(last), 10)}))
			until = last + 1
		}
		left -= len(ids)
		if len(ids) == 0 {
			continue
		}
		ended, err := c.tx.CancelExecutions(x.run.Tenant, ids, x.next.Reason)
		if err != nil {
			return err
		}
		x.out.Ended = append(x.out.Ended, ended...)
		if x.next.Force {
			if err := c.askBelow(x, from, until, engine.AskedToForce, job.Cancelling); err != nil {
				return err
			}
		}
	}
	if len(x.out.Ended) > 0 {
		x.out.Runs = append(x.out.Runs, x.run.ID)
	}
	if len(rest) == 0 {
		return nil
	}
	x.out.More = true
	return c.tx.WriteAll([]Bulk{{SQL: putWaitSQL, Rows: rest}}, nil)
}

// askBelow leaves marks for the runs among the members of a run at some places.
func (c *changes) askBelow(x cancelling, from, until, place engine.NodePlace, status job.Status) error {
	_, err := c.tx.Exec(askBelowSQL, [16]byte(x.run.ID), int64(from), int64(until), int64(place), int(status), x.now)
	return err
}

// digestOf identifies what a wait asks of an event, in a size that an index takes. It is empty if the wait takes any event.
func digestOf(match []byte) []byte {
	if len(match) == 0 {
		return []byte{}
	}
	sum := sha256.Sum256(match)
	return sum[:16]
}

// reader reads more of a run while a decision is made.
type reader struct{ tx Tx }

func (r reader) Results(run job.ExecutionID, node int) ([]engine.RunResult, error) {
	return all(r.tx, scanResult, resultsSQL, [16]byte(run), int64(engine.PlaceOf(node, -1)), int64(engine.PlaceOf(node+1, -1)))
}

func (r reader) Event(t tenant.ID, name string, match []byte, since time.Time) (*engine.RunEvent, error) {
	sql, args := anyEventSQL, []any{string(t), name, since}
	if len(match) > 0 {
		sql, args = eventSQL, append(args, digestOf(match))
	}
	found, err := all(r.tx, scanEvent, sql, args...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
