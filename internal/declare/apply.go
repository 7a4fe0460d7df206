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
	Kind   string `json:"kind"` // job, workflow, calendar or notification rule
	Key    string `json:"key"`
	Name   string `json:"name,omitempty"`
	JobID  string `json:"job_id,omitempty"`
	Action string `json:"action"`
	Done   bool   `json:"done"`
	Error  string `json:"error,omitempty"`

	DroppedCredentials []string `json:"dropped_credentials,omitempty"`

	Err error `json:"-"`
}

// Apply takes the steps of a plan: calendars, then jobs, workflows, deletions, then notification rules. A failed step
// does not stop the others, unless the server is unavailable or refuses all of them; then the rest is not tried. tell
// is called with each step that changes something, as it is taken.
func Apply(ctx context.Context, s Server, p Plan, tell func(Result)) (results []Result) {
	var stop error
	take := func(r Result, do func() (id string, err error)) {
		switch {
		case r.Action == client.ActionUnchanged:
			r.Done = true
			results = append(results, r)
			return
		case stop != nil:
			r.Err = fmt.Errorf("not tried: %w", stop)
		default:
			var id string
			if id, r.Err = do(); id != "" {
				r.JobID = id
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
		take(Result{Kind: "calendar", Key: c.Name, Action: c.Action}, func() (string, error) {
			_, err := s.PutCalendar(ctx, c.Name, c.want)
			return "", err
		})
	}
	job := func(j JobStep) {
		r := Result{Kind: "job", Key: j.Key, Name: j.Name, Action: j.Action, DroppedCredentials: j.DroppedCredentials}
		if j.JobID != nil {
			r.JobID = *j.JobID
		}
		take(r, func() (string, error) { return j.take(ctx, s) })
	}
	for _, j := range p.Jobs {
		if j.Action != ActionDelete {
			job(j)
		}
	}
	for _, w := range usedFirst(p.Workflows) {
		take(Result{Kind: "workflow", Key: w.Key, Name: w.Name, JobID: w.WorkflowID, Action: w.Action}, func() (string, error) { return w.take(ctx, s) })
	}
	for _, j := range p.Jobs { // now that no workflow uses them
		if j.Action == ActionDelete {
			job(j)
		}
	}
	for _, r := range p.Rules {
		take(Result{Kind: "notification rule", Key: r.Name, Action: r.Action}, func() (string, error) {
			_, err := s.PutNotificationRule(ctx, r.Name, r.want)
			return "", err
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

// take takes a step, and returns the id of the job.
func (j JobStep) take(ctx context.Context, s Server) (id string, err error) {
	switch j.Action {
	case client.ActionCreate:
		made, err := s.CreateJob(ctx, j.want.JobRequest)
		return made.JobID, err
	case client.ActionChange:
		return *j.JobID, j.change(ctx, s)
	case ActionDelete:
		_, err := s.DeleteJob(ctx, *j.JobID)
		return *j.JobID, err
	}
	return "", fmt.Errorf("the plan says %q", j.Action)
}

func (j JobStep) change(ctx context.Context, s Server) error {
	pause := slices.ContainsFunc(j.Changes, func(c client.FieldChange) bool { return c.Field == "paused" })
	if others := len(j.Changes) - btoi(pause); others > 0 || j.Note != "" {
		fields, err := j.want.fields()
		if err != nil {
			return err
		}
		if _, err := s.ChangeJob(ctx, *j.JobID, client.JobChange{Fields: fields, Revision: j.Revision}); err != nil {
			return err
		}
	}
	if !pause || j.want.Paused == nil {
		return nil
	}
	var err error
	if *j.want.Paused {
		_, err = s.PauseJob(ctx, *j.JobID, client.PauseRequest{Reason: "declared as paused"})
	} else {
		_, err = s.ResumeJob(ctx, *j.JobID)
	}
	return err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
