package declare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carillon-jobs/carillon/client"
)

// Result is the outcome of a step.
type Result struct {
	Kind   string `json:"kind"` // job, workflow, dependencies, calendar or notification rule
	Key    string `json:"key"`
	Name   string `json:"name,omitempty"`
	JobID  string `json:"job_id,omitempty"`
	Action string `json:"action"`
	Done   bool   `json:"done"`
	Error  string `json:"error,omitempty"`

	DroppedCredentials []string `json:"dropped_credentials,omitempty"`

	Err error `json:"-"`
}

// took is a job after a step.
type took struct {
	id       string
	revision int
}

// Apply takes the steps of a plan: calendars, then jobs, workflows, dependencies, deletions, then notification rules. A failed step
// does not stop the others, unless the server is unavailable or refuses all of them; then the rest is not tried. tell
// is called with each step that changes something, as it is taken.
func Apply(ctx context.Context, s Server, p Plan, tell func(Result)) (results []Result) {
	var stop error
	jobs := map[string]took{} // by key, as they are after their steps
	take := func(r Result, do func() (took, error)) {
		switch {
		case r.Action == client.ActionUnchanged:
			r.Done = true
			results = append(results, r)
			return
		case stop != nil:
			r.Err = fmt.Errorf("not tried: %w", stop)
		default:
			var now took
			if now, r.Err = do(); now.id != "" {
				r.JobID = now.id
			}
			if r.Err == nil && (r.Kind == "job" || r.Kind == "workflow") {
				jobs[r.Key] = now
			}
			if hopeless(r.Err) || ctx.Err() != nil {
				stop = r.Err
			}
		}
		if r.Done = r.Err == nil; !r.Done {
			r.Error = r.Err.Error()
		}
		results = append(results, r)
		tell(r)
	}
	for _, c := range p.Calendars {
		take(Result{Kind: "calendar", Key: c.Name, Action: c.Action}, func() (took, error) {
			_, err := s.PutCalendar(ctx, c.Name, c.want)
			return took{}, err
		})
	}
	job := func(j JobStep) {
		r := Result{Kind: "job", Key: j.Key, Name: j.Name, Action: j.Action, DroppedCredentials: j.DroppedCredentials}
		if j.JobID != nil {
			r.JobID = *j.JobID
		}
		take(r, func() (took, error) { return j.take(ctx, s) })
	}
	for _, j := range p.Jobs {
		if j.Action != ActionDelete {
			job(j)
		}
	}
	for _, w := range usedFirst(p.Workflows) {
		take(Result{Kind: "workflow", Key: w.Key, Name: w.Name, JobID: w.WorkflowID, Action: w.Action}, func() (took, error) { return w.take(ctx, s) })
	}
	failed := map[string]bool{}
	for _, r := range results {
		failed[r.Key] = failed[r.Key] || !r.Done && (r.Kind == "job" || r.Kind == "workflow")
	}
	for _, e := range p.Dependencies { // now that all jobs are there
		take(Result{Kind: "dependencies", Key: e.Key, JobID: e.JobID, Action: e.Action}, func() (took, error) {
			if failed[e.Key] {
				return took{}, errors.New("not tried: the job itself could not be changed")
			}
			if now, ok := jobs[e.Key]; ok {
				e.revision = now.revision
			}
			return took{}, e.take(ctx, s)
		})
	}
	for _, j := range p.Jobs { // now that no workflow uses them
		if j.Action == ActionDelete {
			job(j)
		}
	}
	for _, r := range p.Rules {
		take(Result{Kind: "notification rule", Key: r.Name, Action: r.Action}, func() (took, error) {
			_, err := s.PutNotificationRule(ctx, r.Name, r.want)
			return took{}, err
		})
	}
	return results
}

// hopeless reports whether no other step can succeed.
func hopeless(err error) bool {
	var p *client.Problem
	if errors.As(err, &p) && p.Code == "over_quota" {
		return false // another may be within it
	}
	return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnauthorized) || errors.Is(err, client.ErrForbidden)
}

// take takes a step.
func (j JobStep) take(ctx context.Context, s Server) (took, error) {
	switch j.Action {
	case client.ActionCreate:
		made, err := s.CreateJob(ctx, j.want.JobRequest)
		return took{made.JobID, made.Revision}, err
	case client.ActionChange:
		return j.change(ctx, s)
	case ActionDelete:
		_, err := s.DeleteJob(ctx, *j.JobID)
		return took{id: *j.JobID}, err
	}
	return took{}, fmt.Errorf("the plan says %q", j.Action)
}

func (j JobStep) change(ctx context.Context, s Server) (took, error) {
	now := took{*j.JobID, j.Revision}
	pauses := slices.ContainsFunc(j.Changes, func(c client.FieldChange) bool { return c.Field == "paused" })
	if others := len(j.Changes) - btoi(pauses); others > 0 || j.Note != "" {
		fields, err := j.want.fields()
		if err != nil {
			return now, err
		}
		is, err := s.ChangeJob(ctx, *j.JobID, client.JobChange{Fields: fields, Revision: j.Revision})
		if err != nil {
			return now, err
		}
		now.revision = is.Revision
	}
	if !pauses || j.want.Paused == nil {
		return now, nil
	}
	is, err := pause(ctx, s, *j.JobID, *j.want.Paused)
	now.revision = is.Revision
	return now, err
}

// pause pauses a job, or resumes it.
func pause(ctx context.Context, s Server, id string, paused bool) (client.Job, error) {
	if paused {
		return s.PauseJob(ctx, id, client.PauseRequest{Reason: "declared as paused"})
	}
	return s.ResumeJob(ctx, id)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
