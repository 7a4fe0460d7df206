package move

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// left lists the tables of the embedded store that do not move, and why.
var left = map[string]string{
	"carillon_migrations": "each schema has its own steps",
	"tokens":              "the target begins an epoch of its own",
	"orders":              "they are for workers that have lost what they held",
}

// first lists the tables that others refer to.
var first = []string{"tenants", "jobs"}

// shape describes how to convert the columns that the two engines store differently; all others are copied by name.
type shape struct {
	drop []string // columns of the source that the target stores differently
	add  []string // the columns that it has instead, or in addition
	make func(get func(column string) any) ([]any, error)
}

var shapes = map[string]shape{
	"jobs": {add: []string{"part", "max_attempts"}, make: func(get func(string) any) ([]any, error) {
		id, err := idOf(get("id"))
		if err != nil {
			return nil, err
		}
		spec, _ := get("spec").([]byte)
		var j job.Job
		if err := engine.DecodeSpec(spec, &j); err != nil {
			return nil, err
		}
		return []any{int64(job.PartitionOf(job.ID(id))), int64(j.Retry.MaxRetries + 1)}, nil
	}},
	"schedules": {add: []string{"part"}, make: func(get func(string) any) ([]any, error) {
		id, err := idOf(get("job"))
		return []any{int64(job.PartitionOf(job.ID(id)))}, err
	}},
	"live": {
		drop: []string{"group_limits", "cancel_reason"},
		add:  []string{"tally", "group_max", "rate_count", "rate_us", "rate_burst", "cancel_ending", "lane"},
		make: func(get func(string) any) ([]any, error) {
			part, _ := get("part").(int64)
			of, _ := get("tenant").(string)
			class, _ := get("class").(string)
			out := []any{tallied(get), nil, nil, nil, nil, nil, engine.LaneNumber(job.Partition(part), tenant.ID(of), job.Class(class))}
			if limits, ok := get("group_limits").([]byte); ok {
				if len(limits) != 32 {
					return nil, fmt.Errorf("group_limits has %d bytes; want 32", len(limits))
				}
				for i := range 4 {
					if n := int64(binary.BigEndian.Uint64(limits[8*i:])); n != 0 {
						out[1+i] = n
					}
				}
			}
			if get("cancel_at") != nil {
				reason, _ := get("cancel_reason").(string)
				out[5] = engine.EncodeEnd(&job.Error{Type: job.CancelledError, Message: reason}, nil)
			}
			return out, nil
		},
	},
	"executions": {add: []string{"tally"}, make: func(get func(string) any) ([]any, error) { return []any{tallied(get)}, nil }},
	"sessions": {drop: []string{"deposed", "started_at"}, add: []string{"deposed", "started_at"}, make: func(get func(string) any) ([]any, error) {
		at := get("started_at")
		if at == nil {
			at = get("beat_at")
		}
		return []any{int64(1), at}, nil // their workers are connected to a server that is gone
	}},
}

// tallied is 0 for the own fire of a one-off job, which has the job's id.
func tallied(get func(string) any) any {
	id, _ := get("id").([]byte)
	of, _ := get("job").([]byte)
	if slices.Equal(id, of) {
		return int64(0)
	}
	return int64(1)
}

func idOf(v any) (id [16]byte, err error) {
	b, _ := v.([]byte)
	if len(b) != 16 {
		return id, fmt.Errorf("an id has %d bytes; want 16", len(b))
	}
	return [16]byte(b), nil
}

// passage describes how a table is copied from one store to the other.
type passage struct {
	table string
	read  []string // the columns of the source
	put   []string // those of the target
	texts []bool   // for each of those: it holds a list of texts
	at    map[string]int
	copy  []int // the index in read of each of put, except for those that the shape adds
	shape shape
	rows  int64
}

// plan returns how each table is copied, or what prevents it.
func plan(from, to []engine.RowTable) (ps []passage, err error) {
	var wrong []string
	targets := map[string]engine.RowTable{}
	for _, t := range to {
		targets[t.Name] = t
	}
	for _, t := range from {
		if _, stays := left[t.Name]; stays {
			continue
		}
		target, ok := targets[t.Name]
		if !ok {
			wrong = append(wrong, "the target has no table "+t.Name)
			continue
		}
		p, faults := newPassage(t, target)
		wrong = append(wrong, faults...)
		ps = append(ps, p)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("the schemas do not fit: %s", strings.Join(wrong, "; "))
	}
	slices.SortStableFunc(ps, func(a, b passage) int { return rank(a.table) - rank(b.table) })
	return ps, nil
}

func rank(table string) int {
	if i := slices.Index(first, table); i >= 0 {
		return i
	}
	return len(first)
}

func newPassage(from, to engine.RowTable) (p passage, wrong []string) {
	p = passage{table: from.Name, shape: shapes[from.Name], at: map[string]int{}}
	has := map[string]engine.RowColumn{}
	for _, c := range to.Columns {
		has[c.Name] = c
	}
	for i, c := range from.Columns {
		p.read = append(p.read, c.Name)
		p.at[c.Name] = i
		if slices.Contains(p.shape.drop, c.Name) {
			continue
		}
		target, ok := has[c.Name]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("the target has no column %s.%s", from.Name, c.Name))
			continue
		}
		p.put, p.texts, p.copy = append(p.put, c.Name), append(p.texts, target.Texts), append(p.copy, i)
	}
	for _, name := range p.shape.add {
		if _, ok := has[name]; !ok {
			wrong = append(wrong, fmt.Sprintf("the target has no column %s.%s", from.Name, name))
		}
		p.put, p.texts = append(p.put, name), append(p.texts, has[name].Texts)
	}
	for _, c := range to.Columns {
		if c.Needed && !slices.Contains(p.put, c.Name) {
			wrong = append(wrong, fmt.Sprintf("nothing says what %s.%s is to be", from.Name, c.Name))
		}
	}
	return p, wrong
}

// over converts a row for the target.
func (p *passage) over(row []any) ([]any, error) {
	out := make([]any, 0, len(p.put))
	for _, i := range p.copy {
		out = append(out, row[i])
	}
	if p.shape.make == nil {
		return out, nil
	}
	added, err := p.shape.make(func(column string) any { return row[p.at[column]] })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.table, err)
	}
	return append(out, added...), nil
}
