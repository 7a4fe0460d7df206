package declare

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

// maxParents is how many jobs one may depend on.
const maxParents = 100

// After says in a file on which jobs one depends: each by its key, or as {job: …} by what the API takes, an id or key:….
type After struct {
	DependsOn []json.RawMessage `json:"depends_on,omitempty"`
	Condition string            `json:"condition,omitempty"`
}

// OfDependencies returns what a job depends on as a file would declare it.
func OfDependencies(d client.JobDependencies) (a After) {
	for _, p := range d.DependsOn {
		if p.Key != nil {
			a.DependsOn = append(a.DependsOn, raw(*p.Key))
		} else {
			a.DependsOn = append(a.DependsOn, raw(map[string]string{"job": p.JobID}))
		}
	}
	if len(a.DependsOn) > 0 && d.Condition != nil && *d.Condition != "success" {
		a.Condition = *d.Condition
	}
	return a
}

const wantParent = "the key of a job or workflow, or {job: ID}"

// parent reads an entry of depends_on, as the API takes it; empty: it is none.
func parent(entry json.RawMessage) string {
	var key string
	if strictjson.Unmarshal(entry, &key) == nil {
		if key = strings.TrimPrefix(key, "key:"); key == "" {
			return ""
		}
		return "key:" + key
	}
	var by struct {
		Job string `json:"job"`
	}
	if strictjson.Unmarshal(entry, &by) != nil || by.Job == "key:" {
		return ""
	}
	return by.Job
}

// check returns what is wrong with dependencies as such.
func (a After) check(at place) (wrong Problems) {
	switch a.Condition {
	case "", "success", "failure", "always":
	default:
		wrong = append(wrong, at.problem("condition", fmt.Sprintf("%q", a.Condition), "one of success, failure, always"))
	}
	if a.Condition != "" && len(a.DependsOn) == 0 {
		wrong = append(wrong, at.problem("condition", fmt.Sprintf("%q", a.Condition), "depends_on beside it: it says how the jobs there must end"))
	}
	if n := len(a.DependsOn); n > maxParents {
		wrong = append(wrong, at.problem("depends_on", fmt.Sprintf("%d jobs", n), fmt.Sprintf("at most %d", maxParents)))
	}
	for i, entry := range a.DependsOn {
		if parent(entry) == "" {
			wrong = append(wrong, at.problem(fmt.Sprintf("depends_on[%d]", i), brief(entry), wantParent))
		}
	}
	return wrong
}

// EdgeStep describes a change of what a job depends on.
type EdgeStep struct {
	Key       string           `json:"key"`
	Action    string           `json:"action"` // change
	JobID     string           `json:"job_id,omitempty"`
	Add       []string         `json:"add,omitempty"` // jobs that it is to depend on, by their keys or else ids
	Remove    []string         `json:"remove,omitempty"`
	Condition *ConditionChange `json:"condition,omitempty"`

	want     client.DependenciesRequest
	revision int
}

// ConditionChange says how the jobs that one depends on had to end, and will have to.
type ConditionChange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// render writes a step for people.
func (e EdgeStep) render(w io.Writer) {
	fmt.Fprintf(w, "%s %s dependencies of %s\n", signs[e.Action], e.Action, e.Key)
	for _, p := range e.Add {
		fmt.Fprintf(w, "      + edge %s → %s\n", p, e.Key)
	}
	for _, p := range e.Remove {
		fmt.Fprintf(w, "      - edge %s → %s\n", p, e.Key)
	}
	if c := e.Condition; c != nil {
		fmt.Fprintf(w, "      condition: %s → %s\n", c.From, c.To)
	}
}

// take takes a step.
func (e EdgeStep) take(ctx context.Context, s Server) (err error) {
	if len(e.want.DependsOn) == 0 {
		_, err = s.RemoveJobDependencies(ctx, "key:"+e.Key, e.revision)
	} else {
		_, err = s.SetJobDependencies(ctx, "key:"+e.Key, e.want, e.revision)
	}
	return err
}

// vertex is a job among others that depend on each other. Its name is key:… or, if it has no key, its id.
type vertex struct {
	name    string
	parents []string // as they will be; names or, where nobody has asked yet, other references

	declared *After // nil: it is in no file
	place    place
	key      string
	id       string
	revision int
	before   client.JobDependencies
}

// web is what jobs will depend on: those in files as the files say, others as they do now.
type web struct {
	ctx    context.Context
	server Server
	known  map[string]*vertex // by name and id; nil: there is no such job
	state  map[*vertex]int    // 1: on the way, 2: visited
	order  []*vertex          // visited ones, parents first
	wrong  Problems
}

// addEdges adds to a plan what changes about dependencies, and the deletions, in orders that the server accepts: at no time do jobs depend on
// each other in a cycle, and nothing is deleted on which something depends.
func (p *Plan) addEdges(ctx context.Context, s Server, d Declared, pruned []JobStep) (Problems, error) {
	w := &web{ctx: ctx, server: s, known: map[string]*vertex{}, state: map[*vertex]int{}}
	var all []*vertex
	for i := range p.Jobs {
		j := &p.Jobs[i]
		v := &vertex{key: j.Key, declared: &d.Jobs[i].After, place: d.Jobs[i].place, revision: j.Revision, before: client.JobDependencies{Condition: j.Condition, DependsOn: j.DependsOn}}
		if j.JobID != nil {
			v.id = *j.JobID
		}
		all = append(all, v)
	}
	for i, x := range p.Workflows {
		v := &vertex{key: x.Key, declared: &d.Workflows[i].After, place: d.Workflows[i].place, id: x.WorkflowID, revision: x.Revision}
		if x.depends {
			var err error
			if v.before, err = s.JobDependencies(ctx, v.id); err != nil {
				return nil, fmt.Errorf("read on what %s depends: %w", v.key, err)
			}
		}
		all = append(all, v)
	}
	for _, v := range all {
		v.name = "key:" + v.key
		w.known[v.name] = v
		if v.id != "" {
			w.known[v.id] = v
		}
	}
	gone := map[*vertex]*JobStep{}
	for i := range pruned {
		j := &pruned[i]
		v, err := w.find(*j.JobID)
		if err != nil {
			return nil, err
		}
		if v != nil {
			gone[v] = j
		}
	}
	for _, v := range all {
		if err := w.parents(v, gone); err != nil {
			return nil, err
		}
	}
	for _, v := range all {
		if err := w.visit(v, nil); err != nil {
			return nil, err
		}
	}
	for i := range pruned {
		if v := w.known[*pruned[i].JobID]; v != nil {
			if err := w.visit(v, nil); err != nil {
				return nil, err
			}
		}
	}
	for _, v := range w.order {
		if e := v.step(); e != nil {
			p.Dependencies = append(p.Dependencies, *e)
		}
	}
	for _, v := range slices.Backward(w.order) { // children first
		if j := gone[v]; j != nil {
			p.Jobs = append(p.Jobs, *j)
		}
	}
	return w.wrong, nil
}

// find finds a job that is in a file or on the server; nil: there is none.
func (w *web) find(ref string) (*vertex, error) {
	if v, ok := w.known[ref]; ok {
		return v, nil
	}
	d, err := w.server.JobDependencies(w.ctx, ref)
	if errors.Is(err, client.ErrNotFound) {
		w.known[ref] = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read on what %s depends: %w", ref, err)
	}
	v := &vertex{name: d.JobID, id: d.JobID, before: d}
	if d.Key != nil {
		v.name = "key:" + *d.Key
	}
	if is := w.known[v.name]; is != nil { // by its other name
		v = is
	} else {
		for _, p := range d.DependsOn {
			v.parents = append(v.parents, p.JobID)
		}
	}
	w.known[ref], w.known[v.name], w.known[d.JobID] = v, v, v
	return v, nil
}

// parents finds the jobs on which a declared one will depend.
func (w *web) parents(v *vertex, gone map[*vertex]*JobStep) error {
	v.parents = nil
	for i, entry := range v.declared.DependsOn {
		p, err := w.find(parent(entry))
		if err != nil {
			return err
		}
		want := ""
		switch {
		case p == nil:
			want = wantParent + ", that is in these files or on the server"
		case gone[p] != nil:
			want = "a job that --prune does not delete"
		case slices.Contains(v.parents, p.name):
			want = "each job only once"
		default:
			v.parents = append(v.parents, p.name)
			continue
		}
		w.wrong = append(w.wrong, v.place.problem(fmt.Sprintf("depends_on[%d]", i), brief(entry), want))
	}
	return nil
}

// visit puts a job after all that it depends on, and names a cycle where a file makes one.
func (w *web) visit(v *vertex, way []*vertex) error {
	switch w.state[v] {
	case 2:
		return nil
	case 1:
		w.cycle(way[slices.Index(way, v):])
		return nil
	}
	w.state[v], way = 1, append(way, v)
	for _, ref := range v.parents {
		p, err := w.find(ref)
		if err != nil {
			return err
		}
		if p != nil {
			if err := w.visit(p, way); err != nil {
				return err
			}
		}
	}
	w.state[v] = 2
	w.order = append(w.order, v)
	return nil
}

// cycle names jobs that depend on each other in a cycle, each followed by one that it depends on.
func (w *web) cycle(of []*vertex) {
	var names []string
	for _, v := range slices.Backward(of) {
		names = append(names, v.label())
	}
	names = slices.Insert(names, 0, of[0].label())
	at := slices.IndexFunc(of, func(v *vertex) bool { return v.declared != nil })
	if at < 0 {
		return // the server has none, so it was changed while it was read
	}
	w.wrong = append(w.wrong, of[at].place.problem("depends_on", strings.Join(names, " → "), "jobs that do not depend on each other in a cycle"))
}

// label is what people know a job by.
func (v *vertex) label() string { return strings.TrimPrefix(v.name, "key:") }

// step says what changes about the dependencies of a declared job; nil: nothing does.
func (v *vertex) step() *EdgeStep {
	if v.declared == nil {
		return nil
	}
	e := &EdgeStep{Key: v.key, Action: client.ActionChange, JobID: v.id, revision: v.revision, want: client.DependenciesRequest{DependsOn: v.parents}}
	var before []string
	for _, p := range v.before.DependsOn {
		name := p.JobID
		if p.Key != nil {
			name = "key:" + *p.Key
		}
		if before = append(before, name); !slices.Contains(v.parents, name) {
			e.Remove = append(e.Remove, strings.TrimPrefix(name, "key:"))
		}
	}
	for _, name := range v.parents {
		if !slices.Contains(before, name) {
			e.Add = append(e.Add, strings.TrimPrefix(name, "key:"))
		}
	}
	if len(v.parents) > 0 {
		e.want.Condition = cmp.Or(v.declared.Condition, "success")
		if c := v.before.Condition; c != nil && *c != e.want.Condition {
			e.Condition = &ConditionChange{*c, e.want.Condition}
		}
	}
	if len(e.Add)+len(e.Remove) == 0 && e.Condition == nil {
		return nil
	}
	return e
}
