package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/expression"
	"github.com/carillon-jobs/carillon/internal/secret"
)

// inline gives each inline node the job that it runs: the one that it had, if nothing about it has changed, or a new one.
func (s *Workflows) inline(ctx context.Context, ps *plans, w *Workflow, was *Flow, of job.Job, m *madeFlow) error {
	earlier := map[string]int{} // inline nodes, by key
	if was != nil {
		for i := range was.Graph.Nodes {
			if was.Version.Jobs[i].OfNode() {
				earlier[was.Graph.Nodes[i].Key] = i
			}
		}
	}
	placed := !Places(of.Definition, w.Definition)
	var v job.Invalids
	for i, in := range w.Inline {
		if in == nil {
			continue
		}
		n := &w.Graph.Nodes[i]
		k, had := earlier[n.Key]
		if had && placed && sameRun(n, &was.Graph.Nodes[k]) {
			n.Execution, m.version.Jobs[i] = was.Graph.Nodes[k].Execution, was.Version.Jobs[k]
			continue
		}
		d := w.of(i)
		under := fmt.Sprintf("nodes[%d].", i)
		var before *job.Job
		if had {
			j, err := s.store.Job(ctx, ps.tenant, engine.Ref{ID: was.Version.Jobs[k]})
			if err != nil {
				return err
			}
			before = &j
		}
		wrong, err := s.credentials(ctx, ps, &d, before)
		if err != nil {
			return err
		}
		if v = append(v, wrong.Under(under)...); len(v) > 0 {
			continue
		}
		j := job.Job{ID: job.NodeID(newID()), Tenant: ps.tenant, Definition: d, State: job.Inline, CreatedAt: ps.at, UpdatedAt: ps.at, Revision: 1}
		templates := withoutTemplates(&j.Target)
		sealed, _, err := s.cfg.Secrets.Hide(&j, nil, ps.at)
		var bad job.Invalids
		if errors.As(err, &bad) {
			v = append(v, bad.Under(under)...)
			continue
		}
		if err != nil {
			return err
		}
		if wrong := steerable(&j, len(sealed) > 0); len(wrong) > 0 {
			v = append(v, wrong.Under(under)...)
			continue
		}
		if len(sealed) > 0 {
			if n.Execution, err = rewritten(n.Execution, &j.Target, templates); err != nil {
				return err
			}
		}
		if len(templates) > 0 {
			j.Target.Headers = merge(j.Target.Headers, templates)
		}
		m.version.Jobs[i] = j.ID
		m.jobs, m.secrets = append(m.jobs, j), append(m.secrets, sealed...)
	}
	return v.Err()
}

// Places reports whether a change of a workflow's definition changes where and how soon its inline nodes run.
func Places(was, is job.Definition) bool {
	return was.Priority != is.Priority || was.Queue != is.Queue || !slices.Equal(was.Labels, is.Labels)
}

// credentials says what is wrong with the secrets that a node names, and puts the values of those that it leaves hidden in place: they stay
// while they go where they were given for, as those of jobs do. was is the job of the node before, if it had one.
func (s *Workflows) credentials(ctx context.Context, ps *plans, d *job.Definition, was *job.Job) (v job.Invalids, err error) {
	var before *job.Definition
	if was != nil {
		kept, dropped, why := secret.Keep(*d, was.Definition)
		for _, field := range dropped {
			of, name, _ := strings.Cut(strings.TrimPrefix(field, "execution."), ".")
			v.Add(fmt.Sprintf("execution.%s[%q]", of, job.Show(name)), secret.Hidden, "the value itself: the stored one does not go along, since "+why)
		}
		if len(v) > 0 {
			return v, nil
		}
		*d, before = kept, &was.Definition
	}
	written := *d
	written.Payload = canonical(d.Payload)
	if v, err = ps.references(ctx, &written, before); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Target.Headers)) {
		if value := d.Target.Headers[name]; strings.Contains(value, "{{") && secret.Credential(name) && secret.Exposed(value) {
			v.Add(fmt.Sprintf("execution.headers[%q]", job.Show(name)), "(not shown)", "no credential beside an expression, where it would be shown: write ${secret:name} in its place")
		}
	}
	if len(v) > 0 {
		return v, nil
	}
	if d.Target, err = s.cfg.Secrets.Opened(ctx, ps.tenant, d.Target); errors.As(err, &v) {
		return v, nil
	}
	return nil, err
}

// handedOn says what is wrong with the secrets that nodes name in what they hand to existing jobs.
func (s *Workflows) handedOn(ctx context.Context, ps *plans, w *Workflow) (v job.Invalids, err error) {
	for i := range w.Graph.Nodes {
		if doc := w.Graph.Nodes[i].PayloadOverride; len(doc) > 0 {
			refs, wrong := secret.FindIn(fmt.Sprintf("nodes[%d].payload_override", i), canonical(doc))
			unknown, err := ps.unknown(ctx, refs)
			if err != nil {
				return nil, err
			}
			v = append(append(v, wrong...), unknown...)
		}
	}
	return v, nil
}

// canonical is JSON as templates write it, in which an escape such as \u007b cannot hide a reference to a secret.
func canonical(doc []byte) []byte {
	v := anyOf(doc)
	if v == nil {
		return doc
	}
	if out, err := expression.Encode(v); err == nil {
		return out
	}
	return doc
}

// fixedOrigin matches the beginning of a URL whose scheme, host and port are written out.
var fixedOrigin = regexp.MustCompile(`^(?i:https?)://[^/?#{}]+[/?#]`)

// steerable says what would let the values of a run decide who gets the hidden credentials of a node: an expression in the origin that it
// calls, in its command, or in a payload that its command may run as code. Whoever may begin a run could read them.
func steerable(j *job.Job, hides bool) (v job.Invalids) {
	const instead = ": the node has hidden credentials, which whoever begins a run could read otherwise; or ${secret:name} in place of these"
	t := &j.Target
	switch {
	case !hides:
	case t.Kind == job.HTTP && strings.Contains(t.URL, "{{") && !fixedOrigin.MatchString(t.URL):
		v.Add("execution.callback_url", t.URL, "a scheme, host and port without expressions"+instead)
	case t.Kind == job.Command && slices.ContainsFunc(t.Command, func(arg string) bool { return strings.Contains(arg, "{{") }):
		v.Add("execution.command", strings.Join(t.Command, " "), "no expressions"+instead)
	case t.Kind == job.Command && t.PayloadIsProgram() && (j.Payload == nil || bytes.Contains(j.Payload, []byte("{{"))):
		v.Add("execution.payload", string(j.Payload), "a payload without expressions, or a script file such as report.sh to read it"+instead)
	}
	return v
}

// withoutTemplates takes the headers that hold expressions out of a target: they are no credentials, but are rendered into some.
func withoutTemplates(t *job.Target) map[string]string {
	out := map[string]string{}
	for name, value := range t.Headers {
		if strings.Contains(value, "{{") {
			out[name] = value
		}
	}
	if len(out) > 0 {
		t.Headers = maps.Clone(t.Headers)
		maps.DeleteFunc(t.Headers, func(name, _ string) bool { return out[name] != "" })
	}
	return out
}

func merge(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// rewritten is the execution of a node with references in place of its credentials.
func rewritten(execution []byte, t *job.Target, templates map[string]string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(execution, &members); err != nil {
		return nil, err
	}
	for name, values := range map[string]map[string]string{"headers": merge(t.Headers, templates), "env": t.Env} {
		if _, ok := members[name]; ok {
			text, err := json.Marshal(values)
			if err != nil {
				return nil, err
			}
			members[name] = text
		}
	}
	return json.Marshal(members)
}

// sameRun reports whether a node runs what another does, where what is not shown stands for the other's value.
func sameRun(n, was *workflow.Node) bool {
	a, b := anyOf(n.Execution), anyOf(was.Execution)
	if a, ok := a.(map[string]any); ok {
		if b, ok := b.(map[string]any); ok {
			for _, name := range []string{"headers", "env"} {
				mine, _ := a[name].(map[string]any)
				theirs, _ := b[name].(map[string]any)
				for k, value := range mine {
					if old, ok := theirs[k]; ok && value == secret.Hidden {
						mine[k] = old
					}
				}
			}
		}
	}
	return reflect.DeepEqual(a, b) && reflect.DeepEqual(anyOf(n.RetryPolicy), anyOf(was.RetryPolicy))
}

// anyOf is JSON as a value, with its numbers as they are written.
func anyOf(doc []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}
