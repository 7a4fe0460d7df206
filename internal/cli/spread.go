package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// spreading is a job that takes part in herds, and the jitter with which they would be as busy as other minutes.
type spreading struct {
	JobID  string    `json:"job_id"`
	Name   string    `json:"name"`
	At     time.Time `json:"at"`    // its greatest herd
	Count  int64     `json:"count"` // its part in that
	Herd   int64     `json:"herd"`
	Jitter string    `json:"jitter"`
	After  int64     `json:"a_minute_then"` // of the whole herd, were all of it spread
	length time.Duration
}

const (
	leastSpread = time.Minute
	mostSpread  = time.Hour // an hour late is another time of the day to most people
	leastUsual  = 10        // executions a minute that nobody minds
)

// spreads says which jobs to give how much jitter: as many minutes as the herd has executions for the usual number of a minute, those
// of the largest herds first.
func spreads(f client.Forecast) []spreading {
	herds := map[time.Time]bool{}
	for _, h := range f.Herds {
		herds[h.At.UTC()] = true
	}
	var others, minutes int64
	for _, m := range f.Minutes {
		if !herds[m.At.UTC()] {
			others, minutes = others+m.Count, minutes+1
		}
	}
	usual := int64(leastUsual)
	if minutes > 0 {
		usual = max(usual, others/minutes)
	}
	found := map[string]spreading{}
	for _, h := range f.Herds {
		over := min(max(time.Duration((h.Count+usual-1)/usual)*time.Minute, leastSpread), mostSpread)
		for _, j := range h.Jobs {
			if was, ok := found[j.JobID]; ok && was.length >= over {
				continue
			}
			found[j.JobID] = spreading{
				JobID: j.JobID, Name: j.Name, At: h.At.UTC(), Count: j.Count, Herd: h.Count, Jitter: span(over), length: over, After: (h.Count + int64(over/time.Minute) - 1) / int64(over/time.Minute),
			}
		}
	}
	out := make([]spreading, 0, len(found))
	for _, x := range found {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b spreading) int {
		if a.Herd != b.Herd {
			return int(b.Herd - a.Herd)
		}
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return slices.Compare([]byte(a.JobID), []byte(b.JobID))
	})
	return out
}

func (s *session) showSpread(all []spreading) error {
	if len(all) == 0 {
		s.say("There is no herd to spread.")
		if s.output == "table" || s.output == "wide" {
			return nil
		}
	}
	switch s.output {
	case "table", "wide":
	case "jsonl":
		_, err := show(s, view[spreading]{}, each(all))
		return err
	default:
		return s.value(all)
	}
	rows := [][]string{{"HERD (UTC)", "EXECUTIONS", "A MINUTE THEN", "JOB", "DO"}}
	for _, x := range all {
		rows = append(rows, []string{
			x.At.Format("Mon 2006-01-02 15:04"), fmt.Sprint(x.Herd), fmt.Sprint(x.After), cut(line(x.Name), 30), fmt.Sprintf("carillon job edit %s --jitter %s", x.JobID, x.Jitter),
		})
	}
	return align(s.out, rows, s.paint)
}
