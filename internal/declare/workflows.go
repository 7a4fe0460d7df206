package declare

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/client"
)

// Workflow is a workflow as written in a file.
type Workflow struct {
	client.WorkflowRequest
	After

	place place
}

// WorkflowStep describes a change of a workflow.
type WorkflowStep struct {
	Key        string   `json:"key"`
	Name       string   `json:"name"`
	Action     string   `json:"action"`
	WorkflowID string   `json:"workflow_id,omitempty"`
	Revision   int      `json:"revision,omitempty"`
	Changes    []string `json:"changes,omitempty"` // one line each: nodes and edges that are added, removed or changed, and other fields
	Warnings   []string `json:"warnings,omitempty"`

	want    client.WorkflowRequest
	fields  bool  // something besides paused changes
	pause   *bool // it is to be paused, or resumed
	depends bool  // on other jobs, as it is now
}

// Warning describes a probable mistake in a workflow of a file.
type Warning struct {
	Workflow string `json:"workflow"`
	Node     string `json:"node,omitempty"`
	Message  string `json:"message"`
}

// Lint checks the workflows of files. The error is Problems if one is invalid.
func Lint(ctx context.Context, s Server, d Declared) (out []Warning, err error) {
	coming := d.keys()
	var wrong Problems
	for _, w := range d.Workflows {
		found, bad, err := w.lint(ctx, s, coming)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, bad...)
		for _, x := range found {
			out = append(out, Warning{Workflow: *w.Key, Node: x.Node, Message: x.Message})
		}
	}
	if len(wrong) > 0 {
		return out, wrong
	}
	return out, nil
}

// lint checks a workflow. coming holds the keys that jobs and workflows of the same files will have.
func (w Workflow) lint(ctx context.Context, s Server, coming map[string]bool) (found []client.WorkflowWarning, wrong Problems, err error) {
	lint, err := s.LintWorkflow(ctx, w.WorkflowRequest)
	var p *client.Problem
	if errors.As(err, &p) && len(p.Errors) > 0 {
		for _, x := range p.Errors {
			if key, ok := strings.CutPrefix(x.Value, "key:"); ok && strings.HasSuffix(x.Field, ".job_id") && coming[key] {
				continue // it comes with the same files
			}
			wrong = append(wrong, w.place.problem(x.Field, x.Value, x.Want))
		}
	} else if err != nil {
		return nil, nil, fmt.Errorf("check the workflow %s: %w", *w.Key, err)
	}
	return lint.Warnings, wrong, nil
}

// workflowSteps asks what would change about workflows. coming holds the keys that jobs and workflows of the same
// files will have.
func workflowSteps(ctx context.Context, s Server, ws []Workflow, coming map[string]bool) (out []WorkflowStep, err error) {
	var wrong Problems
	for _, w := range ws {
		step := WorkflowStep{Key: *w.Key, Name: w.Name, Action: client.ActionUnchanged, want: w.WorkflowRequest}
		found, bad, err := w.lint(ctx, s, coming)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, bad...)
		for _, x := range found {
			step.Warnings = append(step.Warnings, strings.TrimPrefix(x.Node+": "+x.Message, ": "))
		}
		is, err := s.Workflow(ctx, "key:"+*w.Key)
		switch {
		case errors.Is(err, client.ErrNotFound):
			step.Action = client.ActionCreate
			step.Changes = nodeChanges(nil, w.Nodes)
		case err != nil:
			return nil, fmt.Errorf("read the workflow %s: %w", *w.Key, err)
		default:
			step.WorkflowID, step.Revision, step.depends = is.WorkflowID, is.Revision, len(is.DependsOn) > 0
			step.compare(is)
		}
		out = append(out, step)
	}
	if len(wrong) > 0 {
		return out, wrong
	}
	return out, nil
}

// compare returns the differences from the existing workflow.
func (w *WorkflowStep) compare(is client.Workflow) {
	was, want := OfWorkflow(is).WorkflowRequest, w.want
	if want.Priority == nil {
		was.Priority = nil // the tenant's usual one
	}
	a, b := usual(was), usual(want)
	for _, name := range slices.Sorted(maps.Keys(merged(a, b))) {
		if name != "nodes" && name != "paused" && !reflect.DeepEqual(a[name], b[name]) {
			w.Changes = append(w.Changes, fmt.Sprintf("%s: %s → %s", name, brief(raw(a[name])), brief(raw(b[name]))))
		}
	}
	w.Changes = append(w.Changes, nodeChanges(was.Nodes, want.Nodes)...)
	w.fields = len(w.Changes) > 0
	if p := want.Paused; p != nil && *p != (is.Status == "PAUSED") {
		w.pause = p
		w.Changes = append(w.Changes, fmt.Sprintf("paused: %v → %v", !*p, *p))
	}
	if len(w.Changes) > 0 {
		w.Action = client.ActionChange
	}
}

// nodeChanges lists the nodes that are added, removed or changed, and then the edges.
func nodeChanges(was, want []client.WorkflowNode) (out []string) {
	old := map[string]client.WorkflowNode{}
	for _, n := range was {
		old[n.Key] = n
	}
	kept, edges, then := map[string]bool{}, edgesOf(was), edgesOf(want)
	for _, n := range want {
		o, ok := old[n.Key]
		kept[n.Key] = true
		if !ok {
			out = append(out, "+ node "+n.Key)
			continue
		}
		if fields := differing(o, n); len(fields) > 0 {
			out = append(out, "~ node "+n.Key+": "+strings.Join(fields, ", "))
		}
	}
	for _, n := range was {
		if !kept[n.Key] {
			out = append(out, "- node "+n.Key)
		}
	}
	for _, e := range slices.Sorted(maps.Keys(then)) {
		if !edges[e] {
			out = append(out, "+ edge "+e)
		}
	}
	for _, e := range slices.Sorted(maps.Keys(edges)) {
		if !then[e] {
			out = append(out, "- edge "+e)
		}
	}
	return out
}

func edgesOf(nodes []client.WorkflowNode) map[string]bool {
	out := map[string]bool{}
	for _, n := range nodes {
		for _, p := range n.DependsOn {
			out[p+" → "+n.Key] = true
		}
	}
	return out
}

// differing lists the fields of a node that differ, except its edges. A hidden credential counts as unchanged.
func differing(was, want client.WorkflowNode) (out []string) {
	a, b := object(was), object(want)
	delete(a, "depends_on")
	delete(b, "depends_on")
	for _, name := range slices.Sorted(maps.Keys(merged(a, b))) {
		if !reflect.DeepEqual(unhidden(a[name], b[name]), b[name]) {
			out = append(out, name)
		}
	}
	return out
}

// hidden is what the server shows in place of a credential.
const hidden = "[redacted]"

// unhidden returns a value in which hidden parts are replaced by those of another.
func unhidden(v, other any) any {
	switch v := v.(type) {
	case string:
		if s, ok := other.(string); ok && v == hidden {
			return s
		}
	case map[string]any:
		o, _ := other.(map[string]any)
		out := map[string]any{}
		for k, x := range v {
			out[k] = unhidden(x, o[k])
		}
		return out
	}
	return v
}

// usual returns a request without fields that have their default.
func usual(r client.WorkflowRequest) map[string]any {
	out := object(r)
	for name, value := range map[string]any{"overlap": "allow", "catch_up": "latest", "catch_up_limit": json.Number("100"), "queue": "default", "on_failure": "continue", "paused": false} {
		if out[name] == value {
			delete(out, name)
		}
	}
	s, _ := out["schedule"].(map[string]any)
	if s == nil {
		return out
	}
	for name, value := range map[string]any{"timezone": "UTC", "day": "vixie", "jitter_ms": json.Number("0")} {
		if s[name] == value {
			delete(s, name)
		}
	}
	if t, ok := s["type"].(string); ok {
		s["type"] = strings.ToUpper(t)
	}
	if len(s) == 0 || len(s) == 1 && s["type"] == "MANUAL" {
		delete(out, "schedule")
	}
	return out
}

// object returns a value of the API as an object without empty fields.
func object(v any) map[string]any {
	var out map[string]any
	d := json.NewDecoder(strings.NewReader(string(raw(v))))
	d.UseNumber()
	if d.Decode(&out) != nil {
		return nil
	}
	maps.DeleteFunc(out, func(_ string, v any) bool {
		l, list := v.([]any)
		return v == nil || list && len(l) == 0
	})
	return out
}

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func raw(v any) json.RawMessage {
	b, err := plainJSON(v)
	if err != nil {
		return nil
	}
	return b
}

// render writes a step for people.
func (w WorkflowStep) render(out io.Writer) {
	title := w.Key
	if w.Name != w.Key {
		title += " (" + w.Name + ")"
	}
	fmt.Fprintf(out, "%s %s workflow %s\n", signs[w.Action], w.Action, title)
	for _, c := range w.Changes {
		fmt.Fprintf(out, "      %s\n", c)
	}
	for _, c := range w.Warnings {
		fmt.Fprintf(out, "      warning: %s\n", c)
	}
}

// take takes a step.
func (w WorkflowStep) take(ctx context.Context, s Server) (took, error) {
	if w.Action == client.ActionCreate {
		made, err := s.CreateWorkflow(ctx, w.want)
		return took{made.WorkflowID, made.Revision}, err
	}
	now := took{w.WorkflowID, w.Revision}
	if w.fields {
		want := w.want
		want.Paused = nil
		is, err := s.ReplaceWorkflow(ctx, "key:"+w.Key, want, w.Revision)
		if err != nil {
			return now, err
		}
		now.revision = is.Revision
	}
	if w.pause == nil {
		return now, nil
	}
	is, err := pause(ctx, s, w.WorkflowID, *w.pause)
	return took{w.WorkflowID, is.Revision}, err
}

// usedFirst puts workflows after those that they use.
func usedFirst(ws []WorkflowStep) []WorkflowStep {
	at := map[string]int{}
	for i, w := range ws {
		at[w.Key] = i
	}
	depth := make([]int, len(ws))
	for range ws { // the server reports cycles
		changed := false
		for i, w := range ws {
			for _, n := range w.want.Nodes {
				key, ok := strings.CutPrefix(n.JobID, "key:")
				if k, known := at[key]; ok && known && depth[i] <= depth[k] && depth[k] < len(ws) {
					depth[i], changed = depth[k]+1, true
				}
			}
		}
		if !changed {
			break
		}
	}
	order := make([]int, len(ws))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(depth[a], depth[b]) })
	out := make([]WorkflowStep, len(ws))
	for i, k := range order {
		out[i] = ws[k]
	}
	return out
}

// OfWorkflow returns a workflow as a file would declare it, without fields that have their default.
func OfWorkflow(w client.Workflow) Workflow {
	s := w.Schedule
	out := Workflow{WorkflowRequest: client.WorkflowRequest{
		Name: w.Name, Key: w.Key, Description: w.Description, Tags: w.Tags, Owner: w.Owner, Runbook: w.Runbook, Priority: &w.Priority, Labels: w.Labels,
		Overlap: unless(w.Overlap, "allow"), CatchUp: unless(w.CatchUp, "latest"), CatchUpLimit: unless(w.CatchUpLimit, 100), Queue: unless(w.Queue, "default"),
		MaxConcurrent: w.MaxConcurrent, ConcurrencyKey: w.ConcurrencyKey, RateLimit: w.RateLimit, UniqueKey: w.UniqueKey, ExpiresAfter: w.ExpiresAfter, Retention: retention(w.Retention),
		Timeout: w.Timeout, OnFailure: w.OnFailure, InputSchema: w.InputSchema, Input: w.Input, Output: w.Output, Nodes: w.Nodes,
	}}
	if s.Type != "MANUAL" {
		out.Schedule = &client.Schedule{
			Type: s.Type, ScheduledTime: s.ScheduledTime, CronExpression: s.CronExpression, Timezone: s.Timezone, Every: s.Every,
			StartAt: s.StartAt, EndAt: s.EndAt, MaxRuns: s.MaxRuns, Calendar: s.Calendar,
		}
		if s.Day != nil {
			out.Schedule.Day = unless(*s.Day, "vixie")
		}
		if s.JitterMS != nil {
			out.Schedule.JitterMS = unless(*s.JitterMS, 0)
		}
	}
	if w.Status == "PAUSED" {
		out.Paused = new(true)
	}
	return out
}
