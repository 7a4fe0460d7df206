package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// maxApprovals bounds how many people an approval may ask for.
const maxApprovals = 20

// Vote is what one person says to an approval.
type Vote struct {
	Approved bool            `json:"approved"`
	By       string          `json:"by"`
	At       time.Time       `json:"at"`
	Comment  string          `json:"comment"`
	Data     json.RawMessage `json:"data"`
}

// Decided says that an approval has its answer, or this person's, already. The API answers it with 409.
type Decided struct {
	Vote Vote // the one that was first
	Own  bool // it is of the same person, and others are still asked
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

// MayVote reports whether somebody of a role is asked by an approval.
func (a *Approval) MayVote(r tenant.Role) bool {
	if len(a.Roles) == 0 {
		return r == tenant.Operator || r == tenant.Admin || r == tenant.System
	}
	return slices.Contains(a.Roles, string(r)) || r == tenant.Admin || r == tenant.System
}

// CastVote adds a vote to those that a wait has. Once it is decided, the event is what Advance is told, and the vote is
// the node's result; until then the event is nil and the votes are to be kept. An error is job.Invalids, where the data
// does not fit the approval's schema, or *Decided.
func CastVote(g *Graph, n int, votes []Vote, v Vote) (*Event, error) {
	x := &g.nodes[n]
	for _, earlier := range votes {
		switch {
		case !earlier.Approved || len(votes) >= x.votes():
			return nil, &Decided{Vote: votes[len(votes)-1]}
		case earlier.By == v.By:
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
	} else if len(v.Data) > MaxValue/2 {
		return nil, job.Invalids{{Field: "data", Value: fmt.Sprintf("%d bytes", len(v.Data)), Want: fmt.Sprintf("at most %d bytes", MaxValue/2)}}
	}
	if len(votes)+1 < x.votes() {
		return nil, nil
	}
	return &Event{Kind: NodeEnded, Node: n, Status: Succeeded}, nil
}

// votes is how many must agree.
func (x *node) votes() int { return max(1, x.wait.Approval.Min) }
