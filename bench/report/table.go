package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Header describes what was measured.
type Header struct {
	Jobs     int    `json:"jobs"`
	Runs     int    `json:"runs"`
	Payload  int    `json:"payload_bytes"`
	Cores    int    `json:"cores"`
	Postgres string `json:"postgres,omitempty"` // version and durability
}

// Full is the whole report, as -o json prints it.
type Full struct {
	Header
	Systems Measured                    `json:"systems"`
	Ratios  map[string]map[string]Ratio `json:"ratios"` // "carillon/river" → metric → ratio
	Targets []Answer                    `json:"targets"`
}

// Summarise adds ratios and targets to the results.
func Summarise(h Header, m Measured) Full {
	f := Full{Header: h, Systems: m, Ratios: map[string]map[string]Ratio{}, Targets: Answers(m)}
	for _, pair := range pairs(m) {
		f.Ratios[pair.name()] = pair.ratios(m)
	}
	return f
}

// JSON prints everything as one object.
func (f Full) JSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(f)
}

// Table prints everything for people.
func (f Full) Table(out io.Writer) error {
	fmt.Fprintf(out, "%d jobs of %d bytes, the median of %d runs, %d cores, %s\n\n", f.Jobs, f.Payload, f.Runs, f.Cores, or(f.Postgres, "PostgreSQL unknown"))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "system\tinsert/s\twork/s\tboth/s\tidle p50 ms\tidle p99 ms\tRSS MB\tlost\tdoubled\t")
	for _, o := range f.Systems {
		if n := o.Numbers; n != nil {
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.0f\t%d\t%d\t\n", o.System,
				n.InsertPerS, n.WorkPerS, n.BothPerS, n.IdlePickupMS.P50, n.IdlePickupMS.P99, n.RSSMB, n.Lost, n.Doubled)
		} else {
			fmt.Fprintf(w, "%s\t–\t–\t–\t–\t–\t–\t–\t–\t\n", o.System)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	f.notes(out)
	if err := f.ratioTable(out); err != nil {
		return err
	}
	return f.targetList(out)
}

// notes describes how each system was configured, and what is missing and why.
func (f Full) notes(out io.Writer) {
	fmt.Fprintln(out)
	for _, o := range f.Systems {
		if o.Missing != "" {
			fmt.Fprintf(out, "%s: NOT MEASURED: %s\n", o.System, o.Missing)
		}
		if o.Numbers != nil && o.Numbers.Settings != "" {
			fmt.Fprintf(out, "%s: %s\n", o.System, o.Numbers.Settings)
		}
		for _, note := range o.Notes {
			fmt.Fprintf(out, "%s: %s\n", o.System, note)
		}
	}
}

func (f Full) ratioTable(out io.Writer) error {
	fmt.Fprint(out, "\nratios (rates: more is better; idle pickup: less is better)\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, m := range metrics {
		fmt.Fprint(w, m.name, "\t")
	}
	fmt.Fprintln(w)
	var reasons []string
	for _, pair := range pairs(f.Systems) {
		row := f.Ratios[pair.name()]
		fmt.Fprint(w, pair.name(), "\t")
		for _, m := range metrics {
			r := row[m.name]
			if r.Why != "" {
				fmt.Fprint(w, "–\t")
				reasons = appendNew(reasons, pair.name()+": no ratio: "+r.Why)
			} else {
				fmt.Fprintf(w, "%.2f×\t", r.Value)
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, reason := range reasons {
		fmt.Fprintln(out, reason)
	}
	return nil
}

func (f Full) targetList(out io.Writer) error {
	fmt.Fprint(out, "\ntargets\n\n")
	for _, a := range f.Targets {
		measured := fmt.Sprintf("measured %.2f× (%s)", a.Ratio.Value, a.Against)
		if a.Ratio.Why != "" {
			measured = "no ratio: " + a.Ratio.Why
		} else if a.Note != "" {
			measured += "; " + a.Note
		}
		if _, err := fmt.Fprintf(out, "  %-7s  %s: want %s, %s\n", a.Verdict, a.Target, a.Want, measured); err != nil {
			return err
		}
	}
	return nil
}

// pair is one of our systems beside one of theirs.
type pair struct{ ours, theirs string }

func (p pair) name() string { return p.ours + "/" + p.theirs }

func (p pair) ratios(m Measured) map[string]Ratio {
	row := map[string]Ratio{}
	ours, ourMissing := m.find(p.ours)
	theirs, theirMissing := m.find(p.theirs)
	for _, column := range metrics {
		switch {
		case ourMissing != "":
			row[column.name] = Ratio{Why: p.ours + ": " + ourMissing}
		case theirMissing != "":
			row[column.name] = Ratio{Why: p.theirs + ": " + theirMissing}
		default:
			row[column.name] = ratio(column.get(ours), column.get(theirs))
		}
	}
	return row
}

func pairs(m Measured) []pair {
	var all []pair
	for _, ours := range m {
		for _, theirs := range m {
			if isCarillon(ours.System) && !isCarillon(theirs.System) {
				all = append(all, pair{ours.System, theirs.System})
			}
		}
	}
	return all
}

func isCarillon(system string) bool { return strings.HasPrefix(system, Carillon) }

func appendNew(lines []string, line string) []string {
	for _, l := range lines {
		if l == line {
			return lines
		}
	}
	return append(lines, line)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
