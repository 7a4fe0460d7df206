package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ask identifies an approval that a run waits for.
type ask struct {
	run   job.ExecutionID
	node  int
	since time.Time
}

// approvals notifies of approvals that runs have begun to wait for since the last look.
func (n *Notifier) approvals(ctx context.Context, now time.Time) error {
	if n.asked == nil {
		n.asked = map[ask]bool{}
	}
	from := n.watched.Add(-overlap)
	for t, rules := range n.rules {
		if !slices.ContainsFunc(rules, func(r notice.Rule) bool { return slices.Contains(r.Events, notice.Approval) }) {
			continue
		}
		after := engine.RunWait{BegunAt: from}
		for {
			ws, err := n.Store.NewApprovals(ctx, t, after, page)
			if err != nil {
				return err
			}
			for _, w := range ws {
				after = w
				a := ask{w.Run, w.Node, w.BegunAt}
				if n.asked[a] {
					continue
				}
				if err := n.approval(ctx, t, rules, w, now); err != nil {
					return err
				}
				if len(n.asked) < maxSeen {
					n.asked[a] = true
				}
			}
			if len(ws) < page {
				break
			}
		}
	}
	for a := range n.asked {
		if a.since.Before(now.Add(-2 * overlap)) {
			delete(n.asked, a)
		}
	}
	return nil
}

// approval notifies of one approval, unless it was decided meanwhile.
func (n *Notifier) approval(ctx context.Context, t tenant.ID, rules []notice.Rule, w engine.RunWait, now time.Time) error {
	run, err := n.Store.WorkflowRun(ctx, t, w.Run)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	j, err := n.job(ctx, t, run.Workflow)
	if err != nil || j == nil {
		return err
	}
	x := &client.NotificationApproval{WorkflowRunID: run.ID.String(), Node: fmt.Sprint(w.Node), Since: w.BegunAt.UTC()}
	if !w.Until.IsZero() {
		until := w.Until.UTC()
		x.Until = &until
	}
	var who string
	stored, err := n.Store.WorkflowVersion(ctx, t, run.Workflow, run.Version)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	if d, bad := workflow.Decode(stored.Definition); err == nil && bad == nil && w.Node < len(d.Nodes) {
		node := d.Nodes[w.Node]
		x.Node = node.Key
		if node.Wait != nil && node.Wait.Approval != nil && len(node.Wait.Approval.Roles) > 0 {
			x.Roles = node.Wait.Approval.Roles
			who = " by " + strings.Join(x.Roles, " or ")
		}
	}
	for _, r := range rules {
		if !r.Wants(notice.Approval, *j) || w.BegunAt.Before(r.CreatedAt) || r.Silent(now) {
			continue
		}
		payload, err := json.Marshal(client.Notification{
			Event: string(notice.Approval), Rule: r.Name, OccurredAt: w.BegunAt.UTC(), Job: jobOf(*j), Approval: x,
			Summary: fmt.Sprintf("%s waits for the approval of %s%s", j.Name, x.Node, who),
		})
		if err != nil {
			return err
		}
		key := notice.Key(r.Name, notice.Approval, run.Workflow, w.Run, w.BegunAt) + fmt.Sprintf("/%d", w.Node)
		if err := n.send(ctx, r, key, payload); err != nil {
			return err
		}
	}
	return nil
}
