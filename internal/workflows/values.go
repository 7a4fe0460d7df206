package workflows

import (
	"bytes"
	"encoding/json"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// values gives expressions what nodes left behind: what this turn brought, and what the store keeps, which is read when it is first
// asked for.
type values struct {
	turn    *Turn
	results map[int]map[int]engine.RunResult // by node and item
	read    map[int]bool
}

// put makes a result known.
func (v *values) put(r engine.RunResult) {
	n := r.Place.Node()
	if v.results[n] == nil {
		v.results[n] = map[int]engine.RunResult{}
	}
	v.results[n][r.Place.Item()] = r
}

// forget drops what is known of a node that runs again.
func (v *values) forget(n int) {
	delete(v.results, n)
	if v.read == nil {
		v.read = map[int]bool{}
	}
	v.read[n] = true
}

// of returns the results of a node, by item.
func (v *values) of(n int) map[int]engine.RunResult {
	if v.read[n] || v.turn.View.Reader == nil {
		return v.results[n]
	}
	if v.read == nil {
		v.read = map[int]bool{}
	}
	v.read[n] = true
	stored, err := v.turn.View.Reader.Results(v.turn.View.Run.ID, n)
	if err != nil {
		v.turn.err = err
		return nil
	}
	for _, r := range stored {
		if _, newer := v.results[n][r.Place.Item()]; !newer {
			v.put(r)
		}
	}
	return v.results[n]
}

// Result returns the result of a node; of a map, the list of its items' results.
func (v *values) Result(n int) json.RawMessage { return together(v.turn.State, n, v.of(n)) }

// together makes the result of a node of those that it left behind.
func together(s *workflow.State, n int, all map[int]engine.RunResult) json.RawMessage {
	counts, mapped := s.Map(n)
	if !mapped {
		return all[-1].Result
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range counts.Total {
		if i > 0 {
			b.WriteByte(',')
		}
		if r := all[i].Result; len(r) > 0 {
			b.Write(r)
		} else {
			b.WriteString("null")
		}
	}
	b.WriteByte(']')
	return b.Bytes()
}

// Error returns the error that a node left behind.
func (v *values) Error(n int) *job.Error { return v.of(n)[-1].Error }
