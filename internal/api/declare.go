package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/service"
)

// maxDeclared limits how many jobs one request may declare.
const maxDeclared = 1000

// declareRoutes returns the routes of declarative files.
func (s jobAPI) declareRoutes() []route {
	return []route{{
		method: "POST", path: "/api/v1/jobs:plan", needs: tenant.Read, group: "Jobs", summary: "Plan: show what declared jobs would change",
		detail: "Compares declared jobs with the stored jobs that have the same keys: which fields would change, and which fires of the next 24 hours would be added and removed. Fields that a job leaves out have their defaults. A credential sent in its redacted form counts as unchanged. Nothing is stored.",
		body:   of[client.PlanRequest](), sample: `{"jobs": [{"job": {"key": "hello", "name": "hello", "execution": {"target": "simulate", "work_kind": "noop"}}}]}`,
		status: 200, answer: of[client.JobPlans](), handle: s.planJobs,
	}}
}

func (s jobAPI) planJobs(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, _, err := read(w, r, maxBatch)
	if err != nil {
		return err
	}
	var req client.PlanRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	if n := len(req.Jobs); n > maxDeclared {
		return job.Invalids{{Field: "jobs", Value: fmt.Sprintf("%d jobs", n), Want: fmt.Sprintf("at most %d jobs", maxDeclared)}}
	}
	usual, err := s.usualPriority(r, p)
	if err != nil {
		return err
	}
	out := client.JobPlans{Jobs: make([]client.JobPlan, len(req.Jobs))}
	seen := map[string]bool{}
	for i, d := range req.Jobs {
		key := deref(d.Job.Key, "")
		if !job.ValidKey(key) || seen[key] {
			want := "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit: declared jobs are told apart by their keys"
			if seen[key] {
				want = "each key only once"
			}
			out.Jobs[i] = invalidPlan(d.Job, job.Invalids{{Field: "key", Value: job.Show(key), Want: want}})
			continue
		}
		seen[key] = true
		plan, err := s.service.Declare(r.Context(), p, key, d.Paused, func(was *job.Job) (job.Definition, error) {
			want := d.Job
			if want.Paused = nil; was == nil {
				want.Paused = d.Paused
			}
			return s.declared(want, was, usual)
		})
		if err != nil {
			return err
		}
		out.Jobs[i] = wirePlan(d.Job, plan)
	}
	return reply(w, 200, out)
}

// declared returns the definition that a job should have.
func (s jobAPI) declared(r client.JobRequest, was *job.Job, usual int) (job.Definition, error) {
	if r.Priority == nil {
		r.Priority = &usual
	}
	if was != nil && sameJSON(r.Execution.Payload, was.Payload) {
		r.Execution.Payload = was.Payload // as it was written
	}
	d, err := definition(r, s.cfg.Retry)
	if err != nil {
		return d, both(err, s.service.Check(d))
	}
	return d, nil
}

// maxCanonical limits the documents that are compared regardless of key order: decoding takes several times their
// length.
const maxCanonical = 64 << 10

// sameJSON reports whether two documents are equivalent. Long ones are only if their keys are in the same order, too.
func sameJSON(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) > maxCanonical || len(b) > maxCanonical {
		var x, y bytes.Buffer
		return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
	}
	return bytes.Equal(canonical(a), canonical(b))
}

// canonical returns a document in a canonical form: sorted keys, no blanks, numbers as they were written.
func canonical(doc []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return doc
	}
	return encoded(v)
}

func invalidPlan(r client.JobRequest, v job.Invalids) client.JobPlan {
	out := client.JobPlan{Key: deref(r.Key, ""), Name: r.Name, Action: client.ActionInvalid, Changes: []client.FieldChange{}}
	out.Appear.First, out.Vanish.First, out.DependsOn = []time.Time{}, []time.Time{}, []client.JobDependency{}
	for _, x := range v {
		out.Problems = append(out.Problems, client.FieldProblem{Field: x.Field, Value: x.Value, Want: x.Want})
	}
	return out
}

func wirePlan(r client.JobRequest, d service.Declared) client.JobPlan {
	out := invalidPlan(r, d.Invalid)
	if d.Exists {
		on := wireDependencies(d.On)
		out.JobID, out.Revision, out.Status, out.Condition, out.DependsOn = new(d.Was.ID.String()), d.Was.Revision, new(d.Was.State.String()), on.Condition, on.DependsOn
	}
	if len(d.Invalid) > 0 {
		return out
	}
	out.Timezone = deref(wireSchedule(d.Want, job.Stats{}).Timezone, "UTC")
	out.Action = client.ActionCreate
	if d.Exists {
		out.Changes, out.DroppedCredentials = changes(d.Was, d.Want, r.Execution), d.Dropped
		out.Action = client.ActionChange
		if len(out.Changes) == 0 {
			out.Action = client.ActionUnchanged
		}
	}
	out.Appear, out.Vanish = wireFires(d.Appear), wireFires(d.Vanish)
	return out
}

func wireFires(f service.Fires) client.FireTimes {
	return client.FireTimes{Count: len(f.At), Truncated: f.Cut, First: append([]time.Time{}, f.At[:min(len(f.At), 10)]...)}
}

// changes lists the fields in which two jobs differ. A literal credential always counts as different: otherwise
// somebody who may only read could find it by guessing.
func changes(was, want job.Job, given client.Target) []client.FieldChange {
	out := []client.FieldChange{}
	before, after := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	leaves("", objectOf(encoded(whole(was))), before)
	leaves("", objectOf(encoded(whole(want))), after)
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		from, to := before[name], after[name]
		if sameJSON(from, to) && !guess(name, given) {
			continue
		}
		out = append(out, client.FieldChange{Field: name, From: shownValue(name, from), To: shownValue(name, to)})
	}
	return out
}

// guess reports whether a field is a literal credential.
func guess(name string, given client.Target) bool {
	if header, ok := strings.CutPrefix(name, "execution.headers."); ok && secret.Credential(header) {
		v, there := given.Headers[header]
		return there && v != secret.Hidden && !secret.Refers(v)
	}
	if env, ok := strings.CutPrefix(name, "execution.env."); ok {
		v, there := given.Env[env]
		return there && v != secret.Hidden && secret.HidesVariable(env, v)
	}
	return false
}

// whole returns the request that would create a job as it is, with its payload and whether it is paused.
func whole(j job.Job) any {
	r := asRequest(j)
	r.Execution.Payload = j.Payload
	return struct {
		client.JobRequest
		Paused bool `json:"paused"`
	}{r, j.State == job.Paused}
}

// leaves returns the fields of an object that contain no others, by path; a payload counts as one.
func leaves(path string, o members, out map[string]json.RawMessage) {
	for name, value := range o {
		if inner := objectOf(value); inner != nil && path+name != "execution.payload" {
			leaves(path+name+".", inner, out)
		} else if !isNull(value) {
			out[path+name] = value
		}
	}
}

// shownValue returns a value as it may be shown.
func shownValue(name string, v json.RawMessage) json.RawMessage {
	header, isHeader := strings.CutPrefix(name, "execution.headers.")
	env, isEnv := strings.CutPrefix(name, "execution.env.")
	switch {
	case v == nil:
		return json.RawMessage("null")
	case isHeader && secret.HidesHeader(header, textOf(v)) || isEnv && secret.HidesVariable(env, textOf(v)):
		return encoded(secret.Hidden)
	}
	return v
}
