package api

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (s jobAPI) jobRevisions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err
	}
	q, err := parseQuery(r, pageParams)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	before := 0
	if page.Cursor != "" {
		_, id, err := engine.DecodeCursor(page.Cursor)
		if err != nil {
			return err
		}
		before = int(binary.BigEndian.Uint64(id[8:]))
	}
	all, err := s.service.JobRevisions(r.Context(), p, ref)
	if err != nil {
		return err
	}
	out := client.JobRevisions{Revisions: []client.JobRevision{}}
	next := ""
	for _, x := range all {
		if before != 0 && x.Job.Revision >= before {
			continue
		}
		if n := len(out.Revisions); n == page.Limit {
			next = engine.EncodePlace(int64(out.Revisions[n-1].Revision))
			break
		}
		c := client.JobRevision{Revision: x.Job.Revision, At: x.At, Current: x.Current, Status: x.Job.State.String(), Spec: encoded(specOf(x.Job))}
		if x.Author != nil {
			c.By, c.Role, c.Action = optional(x.Author.By), optional(string(x.Author.Role)), optional(x.Author.Action)
		}
		if x.Before != nil {
			c.Changes = revised(*x.Before, x.Job)
		}
		out.Revisions = append(out.Revisions, c)
	}
	out.Pagination = pagination(page, engine.Total{Count: int64(len(all))}, next)
	return reply(w, 200, out)
}

// specOf returns the request that would create a job as it is, with credentials hidden.
func specOf(j job.Job) map[string]any {
	req := asRequest(j)
	req.Execution.Headers, req.Execution.Env = redacted(j.Target.Headers), redactedEnv(j.Target.Env)
	spec := without(objectIn(encoded(req)))
	if target, ok := spec["execution"].(map[string]any); ok && j.Payload != nil {
		target["payload"] = json.RawMessage(j.Payload) // as it was written
	}
	return spec
}

// objectIn returns a JSON object with its numbers as they are written.
func objectIn(b []byte) map[string]any {
	out := map[string]any{}
	for name, value := range objectOf(b) {
		out[name] = valueOf(value)
	}
	return out
}

func valueOf(b json.RawMessage) any {
	if len(b) > 0 && b[0] == '{' {
		return objectIn(b)
	}
	return b
}

// without removes nulls from an object, and objects that become empty.
func without(m map[string]any) map[string]any {
	for name, v := range m {
		switch v := v.(type) {
		case json.RawMessage:
			if string(v) == "null" {
				delete(m, name)
			}
		case map[string]any:
			without(v)
		}
	}
	return m
}

// revised lists the fields in which two revisions differ, in order.
func revised(before, after job.Job) []client.RevisionChange {
	was, is := map[string]any{}, map[string]any{}
	paths("", specOf(before), was)
	paths("", specOf(after), is)
	for _, x := range []struct {
		of  job.Job
		all map[string]any
	}{{before, was}, {after, is}} {
		x.all["status"] = x.of.State.String()
		if x.of.State == job.Paused {
			x.all["pause.reason"], x.all["pause.until"] = optional(x.of.PauseNote), instant(x.of.PausedTill)
		}
	}
	out := []client.RevisionChange{}
	names := maps.Clone(was)
	maps.Copy(names, is)
	for name := range names {
		if a, b := encoded(was[name]), encoded(is[name]); !bytes.Equal(a, b) {
			out = append(out, client.RevisionChange{Field: name, Before: a, After: b})
		}
	}
	// Hidden credentials are compared all the same.
	for kind, x := range map[string][2]map[string]string{"headers": {before.Target.Headers, after.Target.Headers}, "env": {before.Target.Env, after.Target.Env}} {
		for name, v := range x[0] {
			field := "execution." + kind + "." + name
			if now, ok := x[1][name]; ok && now != v && bytes.Equal(encoded(was[field]), encoded(is[field])) {
				out = append(out, client.RevisionChange{Field: field, Before: encoded(was[field]), After: encoded(is[field])})
			}
		}
	}
	slices.SortFunc(out, func(a, b client.RevisionChange) int { return cmp.Compare(a.Field, b.Field) })
	return out
}

// paths lists the members of an object by their paths.
func paths(prefix string, m, out map[string]any) {
	for name, v := range m {
		if inner, ok := v.(map[string]any); ok {
			paths(prefix+name+".", inner, out)
			continue
		}
		out[prefix+name] = v
	}
}

func (s jobAPI) restoreJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err
	}
	to, err := strconv.Atoi(r.PathValue("revision"))
	if err != nil || to < 1 {
		return engine.ErrNotFound
	}
	if _, _, err := read(w, r, maxBody); err != nil { // sent again, it finds the job already changed
		return err
	}
	at, err := revision(r)
	if err != nil {
		return err
	}
	j, err := s.service.RestoreJob(r.Context(), p, ref, to, at)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", strconv.Quote(strconv.Itoa(j.Revision)))
	return reply(w, 200, wireChanged(j))
}
