package declare

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// signs lists the symbols that steps begin with.
var signs = map[string]string{client.ActionCreate: "+", client.ActionChange: "~", ActionDelete: "-"}

// Render writes a plan for people; unchanged things are only counted.
func (p Plan) Render(w io.Writer) {
	for _, c := range p.Calendars {
		if c.Action != client.ActionUnchanged {
			fmt.Fprintf(w, "%s %s calendar %s\n", signs[c.Action], c.Action, c.Name)
		}
	}
	for _, j := range p.Jobs {
		if j.Action != client.ActionUnchanged {
			j.render(w)
		}
	}
	for _, step := range p.Workflows {
		if step.Action != client.ActionUnchanged {
			step.render(w)
		}
	}
	for _, e := range p.Dependencies {
		e.render(w)
	}
	for _, r := range p.Rules {
		if r.Action != client.ActionUnchanged {
			fmt.Fprintf(w, "%s %s notification rule %s\n", signs[r.Action], r.Action, r.Name)
		}
	}
	fmt.Fprintln(w, p.Summary())
}

// Summary counts the steps in one sentence.
func (p Plan) Summary() string {
	n := p.Count()
	if n[client.ActionCreate]+n[client.ActionChange]+n[ActionDelete] == 0 {
		return fmt.Sprintf("Nothing would change: %d are as declared.", n[client.ActionUnchanged])
	}
	return fmt.Sprintf("%d to create, %d to change, %d to delete, %d unchanged.", n[client.ActionCreate], n[client.ActionChange], n[ActionDelete], n[client.ActionUnchanged])
}

func (j JobStep) render(w io.Writer) {
	title := j.Key
	if title == "" {
		title = *j.JobID
	}
	if j.Name != "" && j.Name != j.Key {
		title += " (" + j.Name + ")"
	}
	fmt.Fprintf(w, "%s %s job %s\n", signs[j.Action], j.Action, title)
	for _, c := range j.Changes {
		fmt.Fprintf(w, "      %s: %s → %s\n", c.Field, brief(c.From), brief(c.To))
	}
	if len(j.DroppedCredentials) > 0 {
		fmt.Fprintf(w, "      credentials dropped: %s\n", strings.Join(j.DroppedCredentials, ", "))
	}
	if j.Note != "" {
		fmt.Fprintf(w, "      note: %s\n", j.Note)
	}
	j.fires(w, "no longer fires at", j.Vanish)
	j.fires(w, "then fires at", j.Appear)
}

// fires formats instants in the zone of the schedule.
func (j JobStep) fires(w io.Writer, what string, f client.FireTimes) {
	if f.Count == 0 {
		return
	}
	zone, err := time.LoadLocation(j.Timezone)
	if err != nil {
		zone = time.UTC
	}
	at := make([]string, len(f.First))
	for i, t := range f.First {
		at[i] = t.In(zone).Format("Mon 02 Jan 15:04:05")
	}
	more := ""
	if f.Count > len(f.First) || f.Truncated {
		more = fmt.Sprintf(", … %d in all", f.Count)
		if f.Truncated {
			more += " or more"
		}
	}
	fmt.Fprintf(w, "      %s %s%s (%s, the next 24 h)\n", what, strings.Join(at, ", "), more, zone)
}

// brief formats a value for people.
func brief(v json.RawMessage) string {
	if v == nil || string(v) == "null" {
		return "(not set)"
	}
	r := []rune(string(v))
	if len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return string(r)
}
