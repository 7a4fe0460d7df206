package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Runs judges the runs of workflows by the rules of their contract alone: no node starts before its trigger holds,
// none runs twice in an attempt of the run, a paused run starts nothing, a retry leaves alone what succeeded, maps
// count their items, and a run ends as its nodes did, with nothing left behind.
func Runs(h *History) []Violation {
	j := &judge{runs: map[string]*run{}, at: map[string]place{}}
	for _, e := range h.Events() {
		j.take(e)
	}
	return j.out
}

// judge holds the state of all runs so far.
type judge struct {
	runs map[string]*run
	at   map[string]place // by execution
	out  []Violation
}

// place identifies the node and the run of an execution.
type place struct {
	*step
	item int
}

// run is the state of a run so far.
type run struct {
	name    string
	status  string
	attempt int
	late    bool // it has a timeout
	steps   []*step
	of      map[string]*step
	asked   map[string]bool // acts, and acts on nodes
	acts    int             // that were asked for
	since   map[string]int  // by caller: the number of acts when it asked
	may     map[string]bool // nodes that the retry may run again; nil: it is the first attempt
}

// step is the state of a node so far.
type step struct {
	Node
	run            *run
	status, reason string
	was            string // when the attempt began
	moved          bool   // it changed in this attempt
	items          map[int]*piece
}

// piece is the latest execution of a node, or of an item of its map.
type piece struct {
	execution string
	attempt   int    // of the run
	end       string // empty: it has not ended
}

func (j *judge) wrong(e Event, format string, args ...any) {
	j.out = append(j.out, violation("runs", []Event{e}, format, args...))
}

func (j *judge) take(e Event) {
	key := e.Tenant + "/" + e.Run
	if is(Invoke, Cancel)(e) || is(Commit, Added)(e) && e.Parks && e.Run != "" { // or the run it is a node of may cancel it
		j.of(e.Tenant + "/" + e.Execution).asked["cancel"] = true
		return
	}
	if e.Op == Act || e.Op == RunBegan {
		j.of(key) // requests may come before it begins
	}
	r := j.runs[key]
	switch {
	case is(Commit, RunBegan)(e):
		if r.steps != nil {
			j.wrong(e, "%s began twice", key)
			return
		}
		r.begin(e)
	case e.Op == RunLeft:
		j.wrong(e, "%s has ended, and there is still %s", key, e.Tag)
	case e.Kind == Commit && e.Op == Became && final(e.Result):
		if p, ok := j.at[e.Tenant+"/"+e.Execution]; ok {
			if x := p.items[p.item]; x.execution == e.Execution {
				x.end = e.Result
			}
		}
	case r == nil: // nothing of a run
	case e.Op == Act:
		j.act(r, e)
	case is(Commit, RunAgain)(e):
		r.again(e.Attempt)
	case is(Commit, RunBecame)(e):
		j.became(r, e)
	case is(Commit, NodeBecame)(e):
		if s := r.of[e.Node]; s != nil {
			j.node(r, s, e)
		}
	case is(Commit, NodeStarted)(e):
		if s := r.of[e.Node]; s != nil {
			j.started(r, s, e)
			j.at[e.Tenant+"/"+e.Execution] = place{s, e.Item}
		}
	case is(Final, RunBecame)(e):
		if !hasEnded(e.Result) {
			j.wrong(e, "%s has not ended: it is %s; %s", key, e.Result, r)
		}
	}
}

// of returns the state of a run, which may not have begun.
func (j *judge) of(name string) *run {
	r := j.runs[name]
	if r == nil {
		r = &run{name: name, status: "RUNNING", attempt: 1, of: map[string]*step{}, asked: map[string]bool{}, since: map[string]int{}}
		j.runs[name] = r
	}
	return r
}

func (r *run) begin(e Event) {
	r.late = e.Tag != ""
	for _, n := range e.Graph.Nodes {
		s := &step{Node: n, run: r, status: "WAITING", items: map[int]*piece{}}
		r.steps = append(r.steps, s)
		r.of[n.Key] = s
	}
}

func (r *run) String() string {
	var b strings.Builder
	for _, s := range r.steps {
		fmt.Fprintf(&b, "%s=%s ", s.Node, cmp.Or(strings.TrimSpace(s.status+" "+s.reason), "?"))
	}
	return strings.TrimSpace(b.String())
}

// parents counts how the parents of a node stand.
func (r *run) parents(s *step) (x ends) {
	for _, key := range s.After {
		if p := r.of[key]; p != nil {
			x.add(p.status, p.reason, p.OnFailure)
		}
	}
	return x
}

// act records a client's request, and compares its response with the store.
func (j *judge) act(r *run, e Event) {
	if e.Kind == Invoke {
		r.acts++
		r.since[e.Proc] = r.acts
		r.asked[e.Tag] = true
		for _, key := range strings.Split(e.Node, ",") {
			r.asked[e.Tag+" "+key] = true
		}
		return
	}
	if e.Kind != OK || r.acts != r.since[e.Proc] { // otherwise another act may have come after it
		return
	}
	s := r.of[e.Node]
	switch {
	case e.Tag == "pause" && r.status == "RUNNING", e.Tag == "unpause" && r.status == "PAUSED", e.Tag == "cancel" && (r.status == "RUNNING" || r.status == "PAUSED"):
		j.wrong(e, "%s of %s was answered, and the run is %s", e.Tag, r.name, r.status)
	case e.Tag == "approve" && s.status != "SUCCEEDED", e.Tag == "reject" && s.status != "FAILED":
		j.wrong(e, "%s of %s of %s was answered, and the node is %s", e.Tag, e.Node, r.name, s.status)
	}
}

// again begins the next attempt, and computes what the contract lets run again: failed and named nodes, all of their
// descendants, nodes that were not run with the skipped nodes below them, and finally nodes.
func (r *run) again(attempt int) {
	r.attempt, r.status, r.may = attempt, "RUNNING", map[string]bool{}
	from, below := map[string]bool{}, map[string]bool{}
	for _, s := range r.steps { // parents come first
		s.was, s.moved = s.status, false
		from[s.Key] = failure(s.status) && s.OnFailure != "ignore" || r.asked["retry "+s.Key] || r.asked["retry only "+s.Key] || r.asked["skip "+s.Key] || r.asked["mark "+s.Key]
		below[s.Key] = s.status == "NOT_RUN"
		for _, p := range s.After {
			from[s.Key] = from[s.Key] || from[p]
			below[s.Key] = below[s.Key] || below[p]
		}
		r.may[s.Key] = s.Finally || from[s.Key] || below[s.Key] && (s.status == "NOT_RUN" || s.status == "SKIPPED")
	}
}

// became judges a new status of a run.
func (j *judge) became(r *run, e Event) {
	r.status = e.Result
	if !hasEnded(e.Result) {
		return
	}
	fails := false
	for _, s := range r.steps {
		if !hasEnded(s.status) {
			j.wrong(e, "%s is %s, and %s is %s", r.name, e.Result, s.Key, s.status)
		}
		fails = fails || failure(s.status) && s.OnFailure != "ignore" && s.OnFailure != "handle"
		for item, p := range s.items {
			if p.end == "" {
				j.wrong(e, "%s is %s, and %s, item %d, is still there as %s", r.name, e.Result, s.Key, item, p.execution)
			}
		}
	}
	want := "SUCCEEDED"
	if fails {
		want = "FAILED"
	}
	switch {
	case e.Result == "CANCELLED" && r.asked["cancel"], e.Result == "TIMED_OUT" && r.late:
	case e.Result != want:
		j.wrong(e, "%s is %s, and should be %s: %s", r.name, e.Result, want, r)
	}
}

// started judges the start of a node, or of an item of its map.
func (j *judge) started(r *run, s *step, e Event) {
	switch p := s.items[e.Item]; {
	case hasEnded(r.status):
		j.wrong(e, "%s of %s started, and the run is %s", e.Execution, r.name, r.status)
	case r.status == "PAUSED":
		j.wrong(e, "%s of %s started while the run was paused", e.Execution, r.name)
	case r.status == "CANCELLING" && !s.Finally:
		j.wrong(e, "%s of %s started while the run was being cancelled", e.Execution, r.name)
	case s.status != "PENDING" && s.status != "RUNNING" && s.status != "CANCELLING":
		j.wrong(e, "%s of %s started, and its node is %s", e.Execution, r.name, s.status)
	case p != nil && p.end == "":
		j.wrong(e, "%s of %s started while %s still ran", e.Execution, r.name, p.execution)
	case p != nil && p.attempt == r.attempt:
		j.wrong(e, "%s of %s is the second execution of %s, item %d, in attempt %d of the run", e.Execution, r.name, s.Key, e.Item, r.attempt)
	case p != nil && s.Map && p.end == "SUCCEEDED" && failure(s.was) && !r.movedAbove(s):
		j.wrong(e, "a retry of %s ran item %d of %s again, which had succeeded", r.name, e.Item, s.Key)
	}
	s.items[e.Item] = &piece{execution: e.Execution, attempt: r.attempt}
	live := 0
	for _, p := range s.items {
		if p.end == "" {
			live++
		}
	}
	if s.Parallel > 0 && live > s.Parallel {
		j.wrong(e, "%d items of %s of %s run at once, and it may be %d", live, s.Key, r.name, s.Parallel)
	}
}

// movedAbove reports whether an ancestor of a node changed in this attempt.
func (r *run) movedAbove(s *step) bool {
	for _, key := range s.After {
		if p := r.of[key]; p.moved || r.movedAbove(p) {
			return true
		}
	}
	return false
}

// node judges a new status of a node.
func (j *judge) node(r *run, s *step, e Event) {
	from := s.status
	s.status, s.reason, s.moved = e.Result, e.Tag, true
	byHand := e.Tag == "BY_HAND"
	switch {
	case r.may != nil && !r.may[s.Key] && !byHand && !r.handled():
		j.wrong(e, "attempt %d of %s changed %s, which was %s and follows from nothing that ran again: %s", r.attempt, r.name, s.Key, from, r)
		return
	case hasEnded(from) && r.may == nil && !byHand && !r.handled():
		j.wrong(e, "%s of %s was %s and became %s", s.Key, r.name, from, e.Result)
		return
	}
	if hasEnded(from) && !hasEnded(e.Result) && !(failure(s.was) && !r.movedAbove(s)) {
		s.items = map[int]*piece{} // its list is made anew
	}
	verdict := r.parents(s).verdict(s.Trigger)
	switch {
	case e.Result == "WAITING":
	case byHand:
		if act := map[string]string{"SKIPPED": "skip", "SUCCEEDED": "mark"}[e.Result]; !r.asked[act+" "+s.Key] {
			j.wrong(e, "%s of %s is %s by hand, and nobody asked for it", s.Key, r.name, e.Result)
		}
	case e.Result == "NOT_RUN":
		j.notRun(r, s, e, verdict)
	case e.Result == "SKIPPED" && e.Tag == "TRIGGER":
		if verdict != skips {
			j.wrong(e, "%s of %s is SKIPPED; by its trigger %s: %s", s.Key, r.name, verdict, r)
		}
	default: // it starts, or has started
		if !begun(from) && verdict != runs && !r.handled() {
			j.wrong(e, "%s of %s became %s; by its trigger %s: %s", s.Key, r.name, e.Result, verdict, r)
		}
		if !begun(from) && s.Finally {
			j.cleaned(r, s, e)
		}
		if s.Never && (e.Result != "SKIPPED" || e.Tag != "IF_FALSE") {
			j.wrong(e, "%s of %s became %s (%s), and its `if` is false", s.Key, r.name, e.Result, e.Tag)
		}
		if e.Tag == "IF_FALSE" && !s.Never {
			j.wrong(e, "%s of %s was skipped, and its `if` is true", s.Key, r.name)
		}
		if hasEnded(e.Result) && e.Tag != "IF_FALSE" {
			j.ended(r, s, e)
		}
	}
}

// begun reports whether a node with that status had started.
func begun(status string) bool {
	return status == "PENDING" || status == "RUNNING" || status == "CANCELLING"
}

// handled reports whether somebody skipped or marked a node, or ran single nodes: then nodes need not follow from the
// current state of their parents.
func (r *run) handled() bool { return r.asked["skip"] || r.asked["mark"] || r.asked["retry only"] }

// notRun judges that a node is not run.
func (j *judge) notRun(r *run, s *step, e Event, verdict string) {
	ok := false
	switch e.Tag {
	case "TRIGGER":
		ok = verdict == notRun
	case "STOPPED":
		stops := slices.ContainsFunc(r.steps, func(x *step) bool { return failure(x.status) && x.OnFailure == "stop" })
		ok = verdict == isStopped || verdict == runs && stops && !r.goesOn(s)
	case "RUN_CANCELLED":
		ok = r.asked["cancel"] && (!s.Finally || r.asked["force"])
	case "RUN_TIMED_OUT":
		ok = r.late && !s.Finally
	}
	if !ok {
		j.wrong(e, "%s of %s is NOT_RUN (%s); by its trigger %s: %s", s.Key, r.name, e.Tag, verdict, r)
	}
}

// goesOn reports whether a node runs although a failure stopped the run.
func (r *run) goesOn(s *step) bool {
	if s.Finally || s.handles() || s.Trigger == "all_done" || s.Trigger == "always" {
		return true
	}
	var follows func(*step) bool
	follows = func(s *step) bool {
		return s.handles() || slices.ContainsFunc(s.After, func(key string) bool { return follows(r.of[key]) })
	}
	return follows(s)
}

// cleaned judges the start of a finally node, which must be after all others have ended.
func (j *judge) cleaned(r *run, s *step, e Event) {
	for _, o := range r.steps {
		if !o.Finally && !hasEnded(o.status) {
			j.wrong(e, "%s of %s, a finally node, became %s while %s was %s", s.Key, r.name, e.Result, o.Key, o.status)
		}
	}
}

// ended judges the end of a started node.
func (j *judge) ended(r *run, s *step, e Event) {
	stopped := e.Tag == "RUN_CANCELLED" || e.Tag == "RUN_TIMED_OUT" || e.Tag == "TIMEOUT"
	if stopped && !(e.Tag == "RUN_CANCELLED" && r.asked["cancel"] || e.Tag == "RUN_TIMED_OUT" && r.late || e.Tag == "TIMEOUT" && (s.Timeout || s.Finally)) {
		j.wrong(e, "%s of %s became %s (%s), which nobody asked for", s.Key, r.name, e.Result, e.Tag)
	}
	switch {
	case s.Wait != "":
		if s.Wait == "approval" && !stopped && !r.asked[map[string]string{"SUCCEEDED": "approve", "FAILED": "reject"}[e.Result]+" "+s.Key] {
			j.wrong(e, "%s of %s became %s, and nobody decided so", s.Key, r.name, e.Result)
		}
	case s.Map:
		j.counted(r, s, e)
	default:
		p := s.items[0]
		if p == nil {
			j.wrong(e, "%s of %s became %s (%s) without an execution", s.Key, r.name, e.Result, e.Tag)
		} else if p.end != e.Result && !(p.end == "CANCELLED" && e.Result == "TIMED_OUT" && e.Tag == "TIMEOUT") {
			j.wrong(e, "%s of %s became %s (%s), and its execution %s is %q", s.Key, r.name, e.Result, e.Tag, p.execution, p.end)
		}
	}
}

// counted compares the counts of a finished map with the executions of its items.
func (j *judge) counted(r *run, s *step, e Event) {
	if !e.Many { // it was stopped before its list was known
		if len(s.items) > 0 || e.Result == "SUCCEEDED" {
			j.wrong(e, "%s of %s became %s without counts", s.Key, r.name, e.Result)
		}
		return
	}
	is := [4]int{e.Counts[0]}
	for _, p := range s.items {
		switch {
		case p.end == "SUCCEEDED":
			is[1]++
		case p.end == "SKIPPED":
			is[3]++
		case p.end != "" && p.attempt == r.attempt: // otherwise a retry has not reached it
			is[2]++
		}
	}
	all, lost := is[1]+is[2]+is[3] == is[0], is[2] > s.tolerated(is[0])
	switch {
	case is != e.Counts:
		j.wrong(e, "%s of %s counts %v; its executions %v", s.Key, r.name, e.Counts, is)
	case e.Result == "SUCCEEDED" && (!all || lost), e.Result == "FAILED" && !lost:
		j.wrong(e, "%s of %s is %s with the counts %v, and tolerates %q", s.Key, r.name, e.Result, e.Counts, s.Tolerate)
	}
}
