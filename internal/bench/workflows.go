package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// WorkflowsOptions are the options of Workflows.
type WorkflowsOptions struct {
	Options
	Chains int // runs of the chain workflow
	Length int // nodes of that chain
	Star   int // items of the star
	Map    int // items of the wide map
	Turns  int // of everything that is compared or repeated
}

// Goals for workflows: the required value, and the desired one.
const (
	chainsPostgres, chainsSQLite, chainsAim = 0.6, 0.5, 0.8
	mapMemory                               = 300.0       // MB
	joinStart, joinStartAim                 = 50.0, 20.0  // ms
	childStart, childStartAim               = 3.0, 1.5    // ms
	runAnswer, runAnswerAim                 = 100.0, 30.0 // ms
)

// flowPart is a part of the benchmark of workflows.
type flowPart struct {
	name string
	run  func(ctx context.Context, b *flowBench) error
}

// The wide map comes first, because its memory is measured in a process that has done nothing else.
var flowParts = []flowPart{{"map", wideMap}, {"chains", chains}, {"star", star}, {"idle", idleChain}, {"get", getRun}}

// WorkflowParts lists the parts of Workflows.
func WorkflowParts() (all []string) {
	for _, p := range flowParts {
		all = append(all, p.name)
	}
	return all
}

// flowBench is one run of the benchmark of workflows.
type flowBench struct {
	WorkflowsOptions
	rep GoalReport
}

// Workflows measures runs of workflows: the cost of a node against a plain execution, and how soon a node starts
// after the last of its parents.
func Workflows(ctx context.Context, o WorkflowsOptions) (GoalReport, error) {
	b := &flowBench{WorkflowsOptions: o, rep: GoalReport{
		flows:     true,
		Benchmark: fmt.Sprintf("workflows: %s chains of %d, a star of %s, a map of %s", thousands(o.Chains), o.Length, thousands(o.Star), thousands(o.Map)),
		Cores:     runtime.GOMAXPROCS(0), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	b.rep.Config = map[string]any{"chains": o.Chains, "length": o.Length, "star": o.Star, "map": o.Map, "turns": o.Turns, "callers": o.Callers, "samples": o.Samples, "slots": o.Slots}
	began := time.Now()
	for _, p := range flowParts {
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		if err := p.run(ctx, b); err != nil {
			return b.rep, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	b.rep.Seconds = round(time.Since(began).Seconds(), 1)
	return b.rep, nil
}

// on runs one measurement over its own store, with workers and the workflow loop.
func (b *flowBench) on(ctx context.Context, name string, total int, run func(ctx context.Context, r *Rig) (check func(context.Context) (Tally, error), err error)) error {
	got, err := measureOver(ctx, b.Options, "", NewRig, func(ctx context.Context, r *Rig, _ *GoalReport) (Tally, error) {
		defer r.RunFlows()()
		defer r.Work()()
		end := watch(b.Options, name, total, r.Ended)
		check, err := run(ctx, r)
		end()
		if err != nil {
			return Tally{}, err
		}
		return check(ctx)
	})
	b.rep.Engine = cmp.Or(got.Engine, b.rep.Engine)
	b.rep.Accepted, b.rep.Lost, b.rep.Doubled = b.rep.Accepted+got.Accepted, b.rep.Lost+got.Lost, b.rep.Doubled+got.Doubled
	return err
}

// runsOf triggers n runs of a workflow and waits until all have ended. It returns when the first was triggered and
// when the last ended.
func (b *flowBench) runsOf(ctx context.Context, r *Rig, ref engine.Ref, runs, executions int) (began, last time.Time, err error) {
	began = time.Now()
	err = each(ctx, b.Callers, runs, func(ctx context.Context, _ int) error {
		_, err := r.triggerRun(ctx, ref, executions)
		return err
	})
	if err == nil {
		last, err = r.waitRuns(ctx)
	}
	return began, last, err
}

// rated is a rate, and the CPU time per unit.
type rated struct {
	perS float64
	cost *Cost
}

// chains compares nodes of chains with as many plain executions that are triggered one by one. They take turns,
// reversing the order each time.
func chains(ctx context.Context, b *flowBench) error {
	var nodes, plain []rated
	sides := []func() error{
		func() error { return b.chainsOnce(ctx, &nodes) },
		func() error { return b.plainOnce(ctx, &plain) },
	}
	for range b.Turns {
		for _, side := range sides {
			if err := side(); err != nil {
				return err
			}
		}
		slices.Reverse(sides)
	}
	shares, costs := make([]float64, b.Turns), make([]float64, 0, b.Turns)
	for i := range b.Turns {
		shares[i] = round(nodes[i].perS/plain[i].perS, 3)
		if n, p := nodes[i].cost, plain[i].cost; n != nil && p != nil && p.Process > 0 {
			costs = append(costs, round((n.Process+n.Database)/(p.Process+p.Database), 2))
		}
	}
	least := chainsPostgres
	if b.rep.onSQLite() {
		least = chainsSQLite
	}
	b.rep.note("chain_nodes_per_s", "nodes of chains", middle(rates(nodes)), "/s")
	b.rep.note("plain_per_s", "plain executions, triggered one by one", middle(rates(plain)), "/s")
	b.rep.least("chains_share", "  share", middle(shares), "×", least, chainsAim)
	b.rep.note("chains_share_min", "  in the worst turn", slices.Min(shares), "×")
	b.rep.note("chains_share_max", "  in the best turn", slices.Max(shares), "×")
	if len(costs) > 0 {
		b.rep.note("chains_cost", "processor time of a node, plain executions = 1", middle(costs), "×")
		b.rep.note("chain_node_process_us", "  a node, this process", middle(processTimes(nodes)), "µs")
		b.rep.note("plain_process_us", "  a plain execution, this process", middle(processTimes(plain)), "µs")
	}
	return nil
}

func rates(all []rated) (out []float64) {
	for _, r := range all {
		out = append(out, r.perS)
	}
	return out
}

func processTimes(all []rated) (out []float64) {
	for _, r := range all {
		out = append(out, r.cost.Process)
	}
	return out
}

// middle returns the median.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func (b *flowBench) chainsOnce(ctx context.Context, out *[]rated) error {
	n := b.Chains * b.Length
	return b.on(ctx, "chains", n, func(ctx context.Context, r *Rig) (func(context.Context) (Tally, error), error) {
		ref, err := r.workflow(ctx, "chain", chainOf(b.Length))
		if err != nil {
			return nil, err
		}
		if _, _, err := b.runsOf(ctx, r, ref, 1, b.Length); err != nil { // all are warm
			return nil, err
		}
		m := newMeter(ctx, r.store)
		began, last, err := b.runsOf(ctx, r, ref, b.Chains, b.Length)
		*out = append(*out, rated{round(float64(n)/last.Sub(began).Seconds(), 1), m.per(n)})
		return r.checkRuns, err
	})
}

// plainOnce triggers existing jobs, as many as a chain has nodes.
func (b *flowBench) plainOnce(ctx context.Context, out *[]rated) error {
	n := b.Chains * b.Length
	return b.on(ctx, "plain", n, func(ctx context.Context, r *Rig) (func(context.Context) (Tally, error), error) {
		d := r.def
		d.Schedule = job.Schedule{Type: job.Manual}
		made, _, err := r.Service.CreateJobs(ctx, everybody, slices.Repeat([]job.Definition{d}, b.Length), service.Once[[]service.NewJob]{})
		if err != nil {
			return nil, err
		}
		trigger := func(ctx context.Context, i int) error {
			_, _, err := r.Service.Trigger(ctx, everybody, engine.Ref{ID: made[i%b.Length].Job.ID}, nil, service.Once[job.Execution]{})
			if err == nil {
				r.ledger.count.Add(1)
			}
			return err
		}
		if err := each(ctx, 1, b.Length, trigger); err != nil { // all are warm
			return nil, err
		}
		if _, err := r.Wait(ctx); err != nil {
			return nil, err
		}
		m, began := newMeter(ctx, r.store), time.Since(r.ledger.start)
		if err := each(ctx, b.Callers, n, trigger); err != nil {
			return nil, err
		}
		_, err = r.Wait(ctx)
		*out = append(*out, rated{r.ledger.rate(n, began), m.per(n)})
		return func(ctx context.Context) (t Tally, err error) {
			for _, j := range made {
				stats, err := r.store.Stats(ctx, everybody.Tenant, []job.ID{j.Job.ID})
				if err != nil {
					return t, err
				}
				t.Lost -= int(stats[0].Succeeded)
			}
			t.Accepted = n + b.Length
			t.Lost = max(0, t.Lost+t.Accepted)
			t.Doubled = max(0, r.ledger.size()-t.Accepted)
			return t, nil
		}, err
	})
}

// star measures a node, many items and a node that waits for all of them.
func star(ctx context.Context, b *flowBench) error {
	var took, joins []float64
	for range b.Turns {
		err := b.on(ctx, "star", b.Star+2, func(ctx context.Context, r *Rig) (func(context.Context) (Tally, error), error) {
			seconds, join, err := b.starOnce(ctx, r, b.Star)
			took, joins = append(took, seconds), append(joins, join)
			return r.checkRuns, err
		})
		if err != nil {
			return err
		}
	}
	b.rep.note("star_s", "star: from the trigger until the run has ended", round(middle(took), 3), "s")
	b.rep.note("star_nodes_per_s", "  nodes", round(float64(b.Star)/middle(took), 1), "/s")
	b.rep.note("star_join_ms", "  last item to the start of the join", round(middle(joins), 2), "ms")
	return nil
}

// starOnce runs a star as a new workflow. It returns how long that took, and how many milliseconds after the last
// item the join started.
func (b *flowBench) starOnce(ctx context.Context, r *Rig, items int) (seconds, join float64, err error) {
	name := fmt.Sprintf("star%d", r.runs.stars.Add(1))
	ref, err := r.workflow(ctx, name, starOf(items))
	if err != nil {
		return 0, 0, err
	}
	r.runs.watch(name+"/item", name+"/join")
	began, last, err := b.runsOf(ctx, r, ref, 1, items+2)
	return last.Sub(began).Seconds(), joinDelay(r.runs.seen(), name+"/join"), err
}

// joinDelay returns how many milliseconds after the last item the join started.
func joinDelay(all []beginning, join string) float64 {
	var lastItem, started time.Time
	for _, x := range all {
		switch {
		case x.name == join:
			started = x.at
		case x.at.After(lastItem):
			lastItem = x.at
		}
	}
	return float64(started.Sub(lastItem)) / float64(time.Millisecond)
}

// joinSamples is the number of joins of smaller maps to measure besides those of the wide ones.
const joinSamples = 100

// wideMap measures a map of very many items: the memory of the process, and how soon the join starts after the last
// item.
func wideMap(ctx context.Context, b *flowBench) error {
	var took, joins, narrow []float64
	var heap, most uint64
	for turn := range b.Turns {
		err := b.on(ctx, "map", b.Map+2, func(ctx context.Context, r *Rig) (func(context.Context) (Tally, error), error) {
			high := watchHeap()
			seconds, join, err := b.starOnce(ctx, r, b.Map)
			heap = max(heap, high())
			if most = max(most, peakMemory()); err != nil {
				return nil, err
			}
			took, joins = append(took, seconds), append(joins, join)
			if turn > 0 {
				return r.checkRuns, nil
			}
			samples := min(b.Samples, joinSamples)
			for range samples {
				_, join, err := b.starOnce(ctx, r, min(b.Map, 1000))
				if err != nil {
					return nil, err
				}
				narrow = append(narrow, join)
			}
			return r.checkRuns, nil
		})
		if err != nil {
			return err
		}
		debug.FreeOSMemory()
	}
	b.rep.note("map_s", "map: from the trigger until the run has ended", round(middle(took), 3), "s")
	b.rep.note("map_items_per_s", "  items", round(float64(b.Map)/middle(took), 1), "/s")
	b.rep.goal("map_rss_mb", "  memory of this process, at the most", round(float64(most)/(1<<20), 1), "MB", mapMemory)
	b.rep.note("map_heap_mb", "  of it the heap, at the most", round(float64(heap)/(1<<20), 1), "MB")
	b.rep.most("map_join_ms", "  last item to the start of the join, slowest turn", round(slices.Max(joins), 2), "ms", joinStart, joinStartAim)
	if len(narrow) > 0 {
		slices.Sort(narrow)
		b.rep.note("join_p50_ms", "  the same of a map of 1 000, p50", round(middle(narrow), 2), "ms")
		b.rep.most("join_p99_ms", "    p99", round(narrow[(len(narrow)*99+99)/100-1], 2), "ms", joinStart, joinStartAim)
	}
	return nil
}

// idleChain measures how soon a child starts after its parent's result on an idle system. The handler does nothing,
// so the result is there when it begins.
func idleChain(ctx context.Context, b *flowBench) error {
	var gaps []time.Duration
	const length = 20
	runs := (b.Samples+length-2)/(length-1) + 1 // one more to warm up
	err := b.on(ctx, "idle", runs*length, func(ctx context.Context, r *Rig) (func(context.Context) (Tally, error), error) {
		ref, err := r.workflow(ctx, "idle", chainOf(length))
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range length {
			names = append(names, fmt.Sprintf("idle/n%d", i+1))
		}
		for i := range runs {
			r.runs.watch(names...)
			if _, _, err := b.runsOf(ctx, r, ref, 1, length); err != nil {
				return nil, err
			}
			seen := r.runs.seen()
			for k := 1; i > 0 && k < len(seen); k++ { // the first warms up
				gaps = append(gaps, seen[k].at.Sub(seen[k-1].at))
			}
		}
		return r.checkRuns, nil
	})
	if err != nil {
		return err
	}
	q := quantiles(gaps)
	b.rep.most("child_p50_ms", "idle: parent's result to the start of its child, p50", q.P50, "ms", childStart, childStartAim)
	b.rep.note("child_p99_ms", "  p99", q.P99, "ms")
	return nil
}

// getNodes is the size of the run that getRun asks for: the largest that a workflow may have.
const getNodes = 1000

// getRun asks the API for a run with as many nodes as one may have, over HTTP: a node, many after it, and one that waits for all.
func getRun(ctx context.Context, b *flowBench) error {
	var took []time.Duration
	size := 0
	err := b.on(ctx, "get", getNodes, func(ctx context.Context, r *Rig) (func(context.Context) (Tally, error), error) {
		nodes := []workflow.Node{step("n1", "")}
		var all []string
		for i := 2; i < getNodes; i++ {
			nodes = append(nodes, step(fmt.Sprintf("n%d", i), "", "n1"))
			all = append(all, nodes[i-1].Key)
		}
		ref, err := r.workflow(ctx, "get", append(nodes, step("last", "", all...)))
		if err != nil {
			return nil, err
		}
		run, err := r.triggerRun(ctx, ref, getNodes)
		if err != nil {
			return nil, err
		}
		if _, err := r.waitRuns(ctx); err != nil {
			return nil, err
		}
		address, stop, err := r.serve()
		if err != nil {
			return nil, err
		}
		defer stop()
		a := &asker{base: "http://" + address}
		defer a.http.CloseIdleConnections()
		for i := range b.Samples + 5 {
			status, body, answered, err := a.timed(ctx, "/workflow-runs/"+run.String())
			if err != nil {
				return nil, err
			}
			if status != http.StatusOK {
				return nil, fmt.Errorf("GET of a run: %d: %.300s", status, body)
			}
			if size = len(body); i >= 5 { // the first are to warm up
				took = append(took, answered)
			}
		}
		return r.checkRuns, nil
	})
	if err != nil {
		return err
	}
	q := quantiles(took)
	b.rep.most("get_p99_ms", fmt.Sprintf("GET of a run with %s nodes, %d KB, p99", thousands(getNodes), size>>10), q.P99, "ms", runAnswer, runAnswerAim)
	b.rep.note("get_p50_ms", "  p50", q.P50, "ms")
	return nil
}
