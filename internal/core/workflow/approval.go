package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// maxApprovals limits how many people an approval may require.
const maxApprovals = 20

// Vote is one person's decision on an approval.
type Vote struct {
	Approved bool            `json:"approved"`
	By       string          `json:"by"`
	At       time.Time       `json:"at"`
	Comment  string          `json:"comment"`
	Data     json.RawMessage `json:"data"`
	Who      string          `json:"who,omitempty"` // tenant.Principal.Who of the voter; not in the node's result
}

// Act names what the vote does: approve or reject.
func (v Vote) Act() string {
	if v.Approved {
		return "approve"
	}
	return "reject"
}

// Decided means that an approval already has its answer, or this person's. The API answers it with 409.
type Decided struct {
	Vote Vote // the one that was first
	Own  bool // it is by the same person, and others are still asked
}

func (d *Decided) Error() string {
	what := "rejected"
	if d.Vote.Approved {
		what = "approved"
	}
	if d.Own {
		return fmt.Sprintf("you %s this at %s already; others are still asked", what, d.Vote.At.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s %s this at %s already", d.Vote.By, what, d.Vote.At.UTC().Format(time.RFC3339))
}

// Asked is the part of a pending approval that lists show. It is stored with the wait, so that they need no definition.
type Asked struct {
	Key   string   `json:"key"` // of the node
	Roles []string `json:"roles,omitempty"`
	Min   int      `json:"min,omitempty"`
}

// MayVote reports whether somebody with a role may decide an approval.
func (a *Approval) MayVote(r tenant.Role) bool {
	if len(a.Roles) == 0 {
		return r == tenant.Operator || r == tenant.Admin || r == tenant.System
	}
	return slices.Contains(a.Roles, string(r)) || r == tenant.Admin || r == tenant.System
}

// Overruled lists the approvals, and the nodes with a job that may be a workflow with approvals, that skipping or
// marking a node decides without a vote: the node itself and, if others depend on it, those above it that have not let
// the run pass.
func Overruled(g *Graph, s *State, n int) (out []int) {
	if g.mayAsk(int32(n)) {
		out = append(out, n)
	}
	if len(g.nodes[n].children) == 0 {
		return out
	}
	seen := make([]bool, len(g.nodes))
	for next := slices.Clone(g.nodes[n].parents); len(next) > 0; {
		i := next[len(next)-1]
		if next = next[:len(next)-1]; seen[i] {
			continue
		}
		seen[i] = true
		next = append(next, g.nodes[i].parents...)
		if g.mayAsk(i) && !s.passed(g, i, n) {
			out = append(out, int(i))
		}
	}
	slices.Sort(out)
	return out
}

// passed reports whether an approval above a node has let the run pass to it.
func (s *State) passed(g *Graph, i int32, n int) bool {
	c := &s.cells[i]
	if !c.status.Final() {
		return false
	}
	switch g.classOf(i, c) {
	case good:
		return true
	case skipped:
		return s.cells[n].status != Skipped
	}
	return false
}

// mayAsk reports whether a node is an approval, or may contain some.
func (g *Graph) mayAsk(n int32) bool { return g.asks(n) || g.def.Nodes[n].JobID != "" }

// Unpassed lists the approvals, and the nodes with a job that may be a workflow with approvals, that have not let a run
// pass; without a state, all of them.
func Unpassed(g *Graph, s *State) (out []int) {
	for i := range g.nodes {
		if g.mayAsk(int32(i)) && (s == nil || s.cells[i].status != Succeeded && s.cells[i].status != Skipped) {
			out = append(out, i)
		}
	}
	return out
}

// Weakened lists the approvals of a version that another one lacks, or asks of more roles or of fewer people, or no
// longer has above a node that it was above.
func Weakened(from, to *Graph) (out []int) {
	for i := range from.nodes {
		n, ok := to.index[from.nodes[i].key]
		switch was := from.nodes[i].wait; {
		case !from.asks(int32(i)):
		case !ok || !to.asks(n) || to.nodes[n].votes() < from.nodes[i].votes() || wider(to.nodes[n].wait.Approval, was.Approval):
			out = append(out, i)
		default:
			below := to.below(n)
			for k, is := range from.below(int32(i)) {
				if still, ok := to.index[from.nodes[k].key]; is && ok && !below[still] {
					out = append(out, i)
					break
				}
			}
		}
	}
	return out
}

// wider reports whether an approval may be decided by somebody who may not decide another.
func wider(a, than *Approval) bool {
	return slices.ContainsFunc([]tenant.Role{tenant.Viewer, tenant.Operator}, func(r tenant.Role) bool { return a.MayVote(r) && !than.MayVote(r) }) ||
		slices.ContainsFunc(a.Roles, func(r string) bool { return !than.MayVote(tenant.Role(r)) })
}

// below tells which nodes descend from one.
func (g *Graph) below(n int32) []bool {
	out := make([]bool, len(g.nodes))
	for _, i := range g.order {
		for _, p := range g.nodes[i].parents {
			out[i] = out[i] || p == n || out[p]
		}
	}
	return out
}

// asks reports whether a node is an approval.
func (g *Graph) asks(n int32) bool { return g.nodes[n].wait != nil && g.nodes[n].wait.Approval != nil }

// CastVote adds a vote to those that a wait has. Votes are of one person if their Who is the same. Once it is decided, the event is what Advance is told, and the vote is
// the node's result; until then the event is nil and the votes are to be kept. An error is job.Invalids, where the data
// does not fit the approval's schema, or *Decided.
func CastVote(g *Graph, n int, votes []Vote, v Vote) (*Event, error) {
	x := &g.nodes[n]
	if len(v.Data) > MaxValue/2 {
		return nil, job.Invalids{{Field: "data", Value: fmt.Sprintf("%d bytes", len(v.Data)), Want: fmt.Sprintf("at most %d bytes", MaxValue/2)}}
	}
	for _, earlier := range votes {
		switch {
		case !earlier.Approved || len(votes) >= x.votes():
			return nil, &Decided{Vote: votes[len(votes)-1]}
		case earlier.Who == v.Who:
			return nil, &Decided{Vote: earlier, Own: true}
		}
	}
	if !v.Approved {
		return &Event{Kind: NodeEnded, Node: n, Status: Failed, Reason: Rejected}, nil
	}
	if x.approval != nil {
		if bad := misfits("data", x.approval, v.Data); len(bad) > 0 {
			return nil, bad
		}
	}
	if len(votes)+1 < x.votes() {
		return nil, nil
	}
	return &Event{Kind: NodeEnded, Node: n, Status: Succeeded}, nil
}

// votes returns how many must agree.
func (x *node) votes() int { return max(1, x.wait.Approval.Min) }
