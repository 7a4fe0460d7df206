package client

import (
	"context"
	"iter"
	"time"
)

// AuditFilter selects entries of the audit log; an empty field matches everything.
type AuditFilter struct {
	Action    string // such as job.delete; with a dot at its end, all of a kind, such as job.
	Object    string // an id or a name
	Principal string // the name of a credential
	KeyID     string
	From      time.Time // at or after it
	To        time.Time // before it
}

// ListAudit reads a page of the audit log, newest first.
func (c *Client) ListAudit(ctx context.Context, f AuditFilter, p Page) (AuditEntries, error) {
	q := p.params()
	q.text("action", f.Action)
	q.text("object", f.Object)
	q.text("principal", f.Principal)
	q.text("key_id", f.KeyID)
	q.instant("from", f.From)
	q.instant("to", f.To)
	return get[AuditEntries](ctx, c, q.on("/audit"))
}

// Audit iterates over the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[AuditEntry, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]AuditEntry, Pagination, error) {
		page, err := c.ListAudit(ctx, f, p)
		return page.Audit, page.Pagination, err
	})
}

// VerifyAudit verifies a part of the audit log; the answer's next_cursor continues with the rest.
func (c *Client) VerifyAudit(ctx context.Context, cursor string) (AuditVerification, error) {
	q := params{}
	q.text("cursor", cursor)
	return get[AuditVerification](ctx, c, q.on("/audit/verify"))
}

// FollowChanges calls f for each change in the tenant, as it happens, until f fails or ctx ends. A stream that breaks
// is resumed where it was. reset, unless nil, is called when changes were missed: read everything again then.
func (c *Client) FollowChanges(ctx context.Context, f func(Changes) error, reset func(Reset) error) error {
	last := ""
	return c.follow(ctx, "/events/stream", &last, func(e event) (bool, error) {
		switch e.name {
		case "changes":
			var x Changes
			if err := e.decode(&x); err != nil {
				return false, err
			}
			return false, own(f(x))
		case "reset":
			var x Reset
			if err := e.decode(&x); err != nil || reset == nil {
				return false, err
			}
			return false, own(reset(x))
		}
		return false, nil
	})
}
