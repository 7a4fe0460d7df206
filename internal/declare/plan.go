package declare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/carillon-jobs/carillon/client"
)

// Server is the part of the API that declaring needs; *client.Client has it.
type Server interface {
	PlanJobs(ctx context.Context, r client.PlanRequest) (client.JobPlans, error)
	CreateJob(ctx context.Context, r client.JobRequest) (client.Job, error)
	ChangeJob(ctx context.Context, id string, change client.JobChange) (client.Job, error)
	DeleteJob(ctx context.Context, id string) (client.Job, error)
	PauseJob(ctx context.Context, id string, r client.PauseRequest) (client.Job, error)
	ResumeJob(ctx context.Context, id string) (client.Job, error)
	Jobs(ctx context.Context, f client.JobFilter) iter.Seq2[client.Job, error]
	Calendar(ctx context.Context, name string) (client.Calendar, error)
	PutCalendar(ctx context.Context, name string, r client.CalendarRequest) (client.Calendar, error)
	Job(ctx context.Context, id string) (client.Job, error)
	Workflow(ctx context.Context, id string) (client.Workflow, error)
	LintWorkflow(ctx context.Context, r client.WorkflowRequest) (client.WorkflowLint, error)
	CreateWorkflow(ctx context.Context, r client.WorkflowRequest) (client.Workflow, error)
	ReplaceWorkflow(ctx context.Context, id string, r client.WorkflowRequest, revision int) (client.Workflow, error)
	JobDependencies(ctx context.Context, id string) (client.JobDependencies, error)
	SetJobDependencies(ctx context.Context, id string, r client.DependenciesRequest, revision int) (client.JobDependencies, error)
	RemoveJobDependencies(ctx context.Context, id string, revision int) (client.JobDependencies, error)
	NotificationRule(ctx context.Context, name string) (client.NotificationRule, error)
	PutNotificationRule(ctx context.Context, name string, r client.NotificationRuleRequest) (client.NotificationRule, error)
}

// ActionDelete marks a job that is pruned.
const ActionDelete = "delete"

// Plan lists what files would change.
type Plan struct {
	Calendars []CalendarStep `json:"calendars"`
	Jobs      []JobStep      `json:"jobs"`
	Workflows []WorkflowStep `json:"workflows,omitempty"`

	Dependencies []EdgeStep `json:"dependencies,omitempty"`

	Rules []RuleStep `json:"notification_rules"`
}

// CalendarStep describes a change of a calendar.
type CalendarStep struct {
	Name   string `json:"name"`
	Action string `json:"action"`

	want client.CalendarRequest
}

// JobStep describes a change of a job.
type JobStep struct {
	client.JobPlan
	Note string `json:"note,omitempty"`

	want Job
}

// Count returns the number of steps of each kind.
func (p Plan) Count() map[string]int {
	n := map[string]int{}
	for _, c := range p.Calendars {
		n[c.Action]++
	}
	for _, j := range p.Jobs {
		n[j.Action]++
	}
	for _, w := range p.Workflows {
		n[w.Action]++
	}
	for _, e := range p.Dependencies {
		n[e.Action]++
	}
	for _, r := range p.Rules {
		n[r.Action]++
	}
	return n
}

// atOnce is how many jobs one request asks about.
const atOnce = 500

// Make asks the server what files would change. With a tag, jobs that carry it and are not declared would be deleted.
// Mistakes that the server finds are returned as Problems.
func Make(ctx context.Context, s Server, d Declared, prune string) (p Plan, err error) {
	if p.Calendars, err = calendarSteps(ctx, s, d.Calendars); err != nil {
		return p, err
	}
	if p.Rules, err = ruleSteps(ctx, s, d.Rules); err != nil {
		return p, err
	}
	declared := d.keys()
	var wrong Problems
	if p.Jobs, err = jobSteps(ctx, s, d.Jobs, p.Calendars); err != nil && !errors.As(err, &wrong) {
		return p, err
	}
	if p.Workflows, err = workflowSteps(ctx, s, d.Workflows, declared); err != nil {
		var more Problems
		if !errors.As(err, &more) {
			return p, err
		}
		wrong = append(wrong, more...)
	}
	pruned, err := pruneSteps(ctx, s, prune, declared)
	if err != nil {
		return p, err
	}
	bad, err := p.addEdges(ctx, s, d, pruned)
	if err != nil {
		return p, err
	}
	if wrong = append(wrong, bad...); len(wrong) > 0 {
		return p, wrong
	}
	return p, nil
}

// pruneSteps lists the deletions of jobs that have a tag and are not declared. Without a tag there are none.
func pruneSteps(ctx context.Context, s Server, tag string, declared map[string]bool) (out []JobStep, err error) {
	if tag == "" {
		return nil, nil
	}
	for j, err := range s.Jobs(ctx, client.JobFilter{Tag: tag}) {
		if err != nil {
			return nil, fmt.Errorf("find what to delete: %w", err)
		}
		if j.Key != nil && declared[*j.Key] {
			continue
		}
		step := JobStep{JobPlan: client.JobPlan{Name: j.Name, Action: ActionDelete, JobID: &j.JobID, Revision: j.Revision, Status: &j.Status}}
		if j.Key != nil {
			step.Key = *j.Key
		}
		out = append(out, step)
	}
	return out, nil
}

func calendarSteps(ctx context.Context, s Server, cs []Calendar) (out []CalendarStep, err error) {
	for _, c := range cs {
		step := CalendarStep{Name: c.Name, Action: client.ActionUnchanged, want: c.CalendarRequest}
		is, err := s.Calendar(ctx, c.Name)
		switch {
		case errors.Is(err, client.ErrNotFound):
			step.Action = client.ActionCreate
		case err != nil:
			return nil, fmt.Errorf("read the calendar %s: %w", c.Name, err)
		case !sameCalendar(is, c.CalendarRequest):
			step.Action = client.ActionChange
		}
		out = append(out, step)
	}
	return out, nil
}

// sameCalendar reports whether a calendar matches its declaration, in the same order.
func sameCalendar(is client.Calendar, want client.CalendarRequest) bool {
	zone := func(z *string) string {
		if z == nil {
			return ""
		}
		return *z
	}
	return slices.Equal(is.Dates, want.Dates) && slices.Equal(is.Yearly, want.Yearly) && slices.Equal(is.Weekdays, want.Weekdays) &&
		slices.Equal(is.Windows, want.Windows) && zone(is.Timezone) == zone(want.Timezone)
}

func jobSteps(ctx context.Context, s Server, js []Job, cs []CalendarStep) ([]JobStep, error) {
	var out []JobStep
	var wrong Problems
	for part := range slices.Chunk(js, atOnce) {
		steps, err := askFor(ctx, s, part)
		if err != nil {
			return nil, err
		}
		for i := range steps {
			if err := withCalendar(ctx, s, &steps[i], cs); err != nil {
				return nil, err
			}
			for _, x := range steps[i].Problems {
				wrong = append(wrong, part[i].place.problem(x.Field, x.Value, x.Want))
			}
		}
		out = append(out, steps...)
	}
	if len(wrong) > 0 {
		return out, wrong
	}
	return out, nil
}

// askFor asks the server what would change about jobs.
func askFor(ctx context.Context, s Server, js []Job) ([]JobStep, error) {
	r := client.PlanRequest{Jobs: make([]client.DeclaredJob, len(js))}
	for i, j := range js {
		r.Jobs[i] = client.DeclaredJob{Job: j.request(), Paused: j.Paused}
	}
	got, err := s.PlanJobs(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("ask what would change: %w", err)
	}
	if len(got.Jobs) != len(js) {
		return nil, fmt.Errorf("ask what would change: the server answered of %d jobs, not of %d", len(got.Jobs), len(js))
	}
	out := make([]JobStep, len(js))
	for i := range out {
		out[i] = JobStep{JobPlan: got.Jobs[i], want: js[i]}
	}
	return out, nil
}

// withCalendar asks again about a job that was invalid only because its calendar comes with the same files.
func withCalendar(ctx context.Context, s Server, step *JobStep, cs []CalendarStep) error {
	if step.Action != client.ActionInvalid || len(step.Problems) != 1 || step.Problems[0].Field != "schedule.calendar" || step.want.Schedule == nil {
		return nil
	}
	name := step.want.Schedule.Calendar
	if name == nil || !slices.ContainsFunc(cs, func(c CalendarStep) bool { return c.Name == *name && c.Action == client.ActionCreate }) {
		return nil
	}
	without := step.want
	schedule := *without.Schedule
	schedule.Calendar, without.Schedule = nil, &schedule
	again, err := askFor(ctx, s, []Job{without})
	if err != nil {
		return err
	}
	want := step.want
	*step = again[0]
	step.want, step.Note = want, "its calendar "+*name+" comes with it; the fires are shown without it"
	if step.Action == client.ActionUnchanged {
		step.Action = client.ActionChange
	}
	return nil
}

// request returns a job without whether it is paused.
func (j Job) request() client.JobRequest {
	j.Paused = nil
	return j.JobRequest
}

// fields returns all fields of a job, for a change: fields that the file leaves out are null, which restores the
// default.
func (j Job) fields() (map[string]any, error) {
	data, err := json.Marshal(j.request())
	if err != nil {
		return nil, err
	}
	return everything(data, requestShape)
}

// requestShape lists the fields of a request, and their fields.
var requestShape = shapeOf(client.JobRequest{
	Schedule: &client.Schedule{}, RetryPolicy: &client.RetryPolicy{}, RateLimit: &client.RateLimit{}, Retention: &client.Retention{}, Execution: client.Target{Expect: &client.Expect{}},
})

// everything returns the object with every field of its shape; absent ones are null.
func everything(data []byte, s shape) (map[string]any, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(data, &given); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, inner := range s {
		v, ok := given[name]
		switch {
		case !ok || bytes.Equal(v, []byte("null")):
			out[name] = nil
		case inner != nil:
			in, err := everything(v, inner)
			if err != nil {
				return nil, err
			}
			out[name] = in
		default:
			out[name] = v
		}
	}
	return out, nil
}
