package report

import (
	"fmt"
	"strings"
)

// The names of the systems, as the table and the flags spell them.
const (
	Carillon       = "carillon"        // Carillon on PostgreSQL
	CarillonSQLite = "carillon-sqlite" // Carillon on SQLite
	River          = "river"
	Graphile       = "graphile"
	Asynq          = "asynq"
)

// Measured is the outcome of every requested system, in the order of the table.
type Measured []Outcome

// Outcome holds one system's medians, or the reason why there are none.
type Outcome struct {
	System  string   `json:"system"`
	Numbers *Numbers `json:"numbers,omitempty"`
	Runs    int      `json:"runs"`              // runs that the medians are of
	Missing string   `json:"missing,omitempty"` // why there are no numbers
	Notes   []string `json:"notes,omitempty"`   // runs that failed while others succeeded
}

func (m Measured) find(system string) (Numbers, string) {
	for _, o := range m {
		if o.System == system {
			if o.Numbers == nil {
				return Numbers{}, o.Missing
			}
			return *o.Numbers, ""
		}
	}
	return Numbers{}, "not asked for"
}

// metric is one column of the table.
type metric struct {
	name string
	get  func(Numbers) float64
}

var metrics = []metric{
	{"insert/s", func(n Numbers) float64 { return n.InsertPerS }},
	{"work/s", func(n Numbers) float64 { return n.WorkPerS }},
	{"both/s", func(n Numbers) float64 { return n.BothPerS }},
	{"idle p50", func(n Numbers) float64 { return n.IdlePickupMS.P50 }},
	{"idle p99", func(n Numbers) float64 { return n.IdlePickupMS.P99 }},
}

// Ratio is the quotient of two numbers, or the reason why there is none.
type Ratio struct {
	Value float64 `json:"value,omitempty"`
	Why   string  `json:"why,omitempty"` // set: no ratio
}

func ratio(ours, theirs float64) Ratio {
	if ours <= 0 || theirs <= 0 {
		return Ratio{Why: fmt.Sprintf("cannot divide %v by %v", ours, theirs)}
	}
	return Ratio{Value: ours / theirs}
}

// target is one performance target that Carillon promises against its peers.
type target struct {
	name   string
	ours   string
	theirs []string // the best of them counts
	get    func(Numbers) float64
	want   float64
	less   bool // the ratio must be at most want
}

var targets = []target{
	{name: "insert and work at once, against the faster of River and Graphile Worker", ours: Carillon, theirs: []string{River, Graphile}, get: metrics[2].get, want: 2},
	{name: "work off a backlog, against the faster of River and Graphile Worker", ours: Carillon, theirs: []string{River, Graphile}, get: metrics[1].get, want: 2},
	{name: "SQLite: insert and work at once, against River on PostgreSQL", ours: CarillonSQLite, theirs: []string{River}, get: metrics[2].get, want: 2},
	{name: "bulk insert, against River's faster way", ours: Carillon, theirs: []string{River}, get: metrics[0].get, want: 1.5},
	{name: "idle pickup p50, against River", ours: Carillon, theirs: []string{River}, get: metrics[3].get, want: 0.5, less: true},
}

// Answer is a target and its result.
type Answer struct {
	Target  string `json:"target"`
	Want    string `json:"want"`
	Against string `json:"against,omitempty"` // the peer that the ratio is to
	Ratio   Ratio  `json:"ratio"`
	Verdict string `json:"verdict"`
	Note    string `json:"note,omitempty"` // a requested peer that could not be compared
}

// The verdicts on a target.
const (
	Met     = "met"
	Missed  = "MISSED"
	Unknown = "UNKNOWN"
)

// Answers checks every target against the results. A target whose numbers are missing is unknown and says why.
func Answers(m Measured) []Answer {
	answers := make([]Answer, len(targets))
	for i, t := range targets {
		answers[i] = t.answer(m)
	}
	return answers
}

func (t target) answer(m Measured) Answer {
	a := Answer{Target: t.name, Want: t.wanted(), Verdict: Unknown}
	ours, missing := m.find(t.ours)
	if missing != "" {
		a.Ratio.Why = t.ours + ": " + missing
		return a
	}
	best, absent := 0.0, []string{}
	for _, peer := range t.theirs {
		n, missing := m.find(peer)
		if missing != "" {
			absent = append(absent, peer+": "+missing)
		} else if v := t.get(n); a.Against == "" || (v < best) == t.less {
			a.Against, best = peer, v
		}
	}
	if a.Against == "" {
		a.Ratio.Why = strings.Join(absent, "; ")
		return a
	}
	if len(absent) > 0 {
		a.Note = "not compared with " + strings.Join(absent, "; ")
	}
	a.Ratio = ratio(t.get(ours), best)
	switch {
	case a.Ratio.Why != "":
	case !t.holds(a.Ratio.Value):
		a.Verdict = Missed
	case a.Note == "": // otherwise the missing peer might be the faster one
		a.Verdict = Met
	}
	return a
}

func (t target) holds(value float64) bool {
	if t.less {
		return value <= t.want
	}
	return value >= t.want
}

func (t target) wanted() string {
	if t.less {
		return fmt.Sprintf("≤ %.1f×", t.want)
	}
	return fmt.Sprintf("≥ %.1f×", t.want)
}
