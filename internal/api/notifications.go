package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// wireRule returns a rule in API form, with the reason that blocks its notifications, if any.
func (s settingsAPI) wireRule(ctx context.Context, r notice.Rule) (client.NotificationRule, error) {
	blocked, err := s.service.Blocked(ctx, r)
	out := client.NotificationRule{
		Name: r.Name, Events: make([]string, len(r.Events)), Jobs: make([]string, len(r.Jobs)), Tags: list0(r.Tags), CallbackURL: r.URL,
		LateAfterSeconds: int64(r.LateAfter / time.Second), SilenceUntil: instant(r.SilentUntil), Blocked: optional(blocked), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	for i, e := range r.Events {
		out.Events[i] = string(e)
	}
	for i, j := range r.Jobs {
		out.Jobs[i] = j.String()
	}
	return out, err
}

func (s settingsAPI) replyRule(w http.ResponseWriter, r *http.Request, x notice.Rule) error {
	out, err := s.wireRule(r.Context(), x)
	if err != nil {
		return err
	}
	return reply(w, 200, out)
}

// ruleRoutes returns the routes of notification rules.
func (s settingsAPI) ruleRoutes() []route {
	const group = "Notifications"
	return []route{
		{
			method: "GET", path: "/api/v1/notification-rules", needs: tenant.Read, group: group, summary: "List notification rules", params: pageParams,
			status: 200, answer: of[client.NotificationRules](), handle: s.listRules,
		},
		{
			method: "GET", path: "/api/v1/notification-rules/{name}", needs: tenant.Read, group: group, summary: "Read a notification rule",
			status: 200, answer: of[client.NotificationRule](), handle: s.getRule,
		},
		{
			method: "PUT", path: "/api/v1/notification-rules/{name}", needs: tenant.Manage, group: group, summary: "Create or replace a notification rule",
			detail: "Posts a Notification to callback_url for each event that matches, from now on. A job with the tag carillon-notification sends it, so it is signed, retried and kept in the history like every callback.",
			body:   of[client.NotificationRuleRequest](), sample: `{"events": ["failed", "late", "recovered"], "tags": ["billing"], "callback_url": "https://example.com/on-call"}`,
			status: 200, answer: of[client.NotificationRule](), handle: s.putRule,
		},
		{
			method: "DELETE", path: "/api/v1/notification-rules/{name}", needs: tenant.Manage, group: group, summary: "Delete a notification rule",
			status: 200, answer: of[client.NotificationRule](), handle: s.deleteRule,
		},
		{
			method: "POST", path: "/api/v1/notification-rules/{name}/test", needs: tenant.Manage, group: group, summary: "Send a test notification",
			detail: "The execution that sends it shows the outcome.", status: 202, answer: of[client.Triggered](), handle: s.testRule,
		},
	}
}

func (s settingsAPI) listRules(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, page, err := paged(r, func() ([]notice.Rule, error) { return s.service.Rules(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.NotificationRules{NotificationRules: make([]client.NotificationRule, len(all)), Pagination: page}
	for i, x := range all {
		if out.NotificationRules[i], err = s.wireRule(r.Context(), x); err != nil {
			return err
		}
	}
	return reply(w, 200, out)
}

// ruleName returns the rule that a path names; an invalid name is not found.
func ruleName(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if !job.ValidKey(name) {
		return "", engine.ErrNotFound
	}
	return name, nil
}

func (s settingsAPI) getRule(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name, err := ruleName(r)
	if err != nil {
		return err
	}
	x, err := s.service.Rule(r.Context(), p, name)
	if err != nil {
		return err
	}
	return s.replyRule(w, r, x)
}

func (s settingsAPI) putRule(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req client.NotificationRuleRequest
	if err := s.readInto(w, r, maxBody, &req); err != nil {
		return err
	}
	x := notice.Rule{Name: r.PathValue("name"), URL: req.CallbackURL, Tags: req.Tags, LateAfter: seconds(deref(req.LateAfterSeconds, int64(notice.DefaultLateAfter/time.Second)))}
	if req.SilenceUntil != nil {
		x.SilentUntil = req.SilenceUntil.UTC()
	}
	for _, e := range req.Events {
		x.Events = append(x.Events, notice.Event(e))
	}
	var v job.Invalids
	refs := make([]engine.Ref, len(req.Jobs))
	for i, id := range req.Jobs {
		var err error
		if refs[i], err = parseRef(id); err != nil {
			v.Add(fmt.Sprintf("jobs[%d]", i), job.Show(id), "the id of a job, or key: and its key")
		}
	}
	if len(v) > 0 {
		return v
	}
	kept, err := s.service.PutRule(r.Context(), p, x, refs)
	if err != nil {
		return err
	}
	return s.replyRule(w, r, kept)
}

func (s settingsAPI) deleteRule(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name, err := ruleName(r)
	if err != nil {
		return err
	}
	x, err := s.service.DeleteRule(r.Context(), p, name)
	if err != nil {
		return err
	}
	return s.replyRule(w, r, x)
}

func (s settingsAPI) testRule(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name, err := ruleName(r)
	if err != nil {
		return err
	}
	made, err := s.service.TestRule(r.Context(), p, name, func(x notice.Rule, now time.Time) []byte {
		payload, _ := json.Marshal(client.Notification{ // texts and a time always encode
			Event: "test", Rule: x.Name, Summary: "This is a test of the notification rule " + x.Name + ": nothing happened.", OccurredAt: now,
			Job: client.NotificationJob{Name: "none", Tags: []string{}},
		})
		return payload
	})
	if err != nil {
		return err
	}
	return reply(w, 202, client.Triggered{ExecutionID: made.Execution.String(), JobID: made.Job.ID.String(), Status: job.Pending.String(), ScheduledTime: made.Job.CreatedAt})
}
