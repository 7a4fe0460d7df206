package declare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// Rule is a notification rule as written in a file.
type Rule struct {
	Name string `json:"name"`
	client.NotificationRuleRequest

	place place
}

// RuleStep describes a change of a notification rule.
type RuleStep struct {
	Name   string `json:"name"`
	Action string `json:"action"`

	want client.NotificationRuleRequest
}

func ruleSteps(ctx context.Context, s Server, rs []Rule) (out []RuleStep, err error) {
	for _, r := range rs {
		step := RuleStep{Name: r.Name, Action: client.ActionUnchanged, want: r.NotificationRuleRequest}
		is, err := s.NotificationRule(ctx, r.Name)
		switch {
		case errors.Is(err, client.ErrNotFound):
			step.Action = client.ActionCreate
		case err != nil:
			return nil, fmt.Errorf("read the notification rule %s: %w", r.Name, err)
		default:
			same, err := sameRule(ctx, s, is, r.NotificationRuleRequest)
			if err != nil {
				return nil, fmt.Errorf("compare the notification rule %s: %w", r.Name, err)
			}
			if !same {
				step.Action = client.ActionChange
			}
		}
		out = append(out, step)
	}
	return out, nil
}

// sameRule reports whether a rule matches its declaration, in any order.
func sameRule(ctx context.Context, s Server, is client.NotificationRule, want client.NotificationRuleRequest) (bool, error) {
	late := int64(60)
	if want.LateAfterSeconds != nil {
		late = *want.LateAfterSeconds
	}
	silence := func(t *time.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.UTC().Truncate(time.Microsecond)
	}
	if !sameSet(is.Events, want.Events) || !sameSet(is.Tags, want.Tags) || is.CallbackURL != want.CallbackURL || is.LateAfterSeconds != late ||
		!silence(is.SilenceUntil).Equal(silence(want.SilenceUntil)) {
		return false, nil
	}
	ids := make([]string, len(want.Jobs))
	for i, ref := range want.Jobs { // which are returned as ids
		if ids[i] = strings.ToLower(ref); !strings.HasPrefix(ref, "key:") {
			continue
		}
		j, err := s.Job(ctx, ref)
		if errors.Is(err, client.ErrNotFound) {
			return false, nil // it comes with the same files, or the server will report it missing
		}
		if err != nil {
			return false, err
		}
		ids[i] = j.JobID
	}
	return sameSet(is.Jobs, ids), nil
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
