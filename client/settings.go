package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Health is the state of a server.
type Health struct {
	Status  string `json:"status"`
	Version string `json:"version"`
	// Warnings say what is wrong with a server that serves all the same, such as a continuous backup that is behind.
	Warnings []string `json:"warnings,omitempty"`

	At time.Time `json:"-"` // the server's clock, with a precision of one second
}

// Health asks whether a server is alive. It needs no credential.
func (c *Client) Health(ctx context.Context) (Health, error) { return c.health(ctx, "/healthz") }

// Ready asks whether a server can serve; if not, it fails with ErrUnavailable. It needs no credential.
func (c *Client) Ready(ctx context.Context) (Health, error) { return c.health(ctx, "/readyz") }

func (c *Client) health(ctx context.Context, path string) (h Health, err error) {
	head, err := c.ask(ctx, request{method: http.MethodGet, path: path}, nil, &h)
	h.At, _ = http.ParseTime(head.Get("Date"))
	return h, err
}

// Secret reads the metadata of a secret; its value cannot be read.
func (c *Client) Secret(ctx context.Context, name string) (Secret, error) {
	return get[Secret](ctx, c, "/secrets/"+seg(name))
}

// ListSecrets reads a page of secrets.
func (c *Client) ListSecrets(ctx context.Context, p Page) (Secrets, error) {
	return get[Secrets](ctx, c, p.params().on("/secrets"))
}

// Secrets iterates over all secrets.
func (c *Client) Secrets(ctx context.Context) iter.Seq2[Secret, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Secret, Pagination, error) {
		page, err := c.ListSecrets(ctx, p)
		return page.Secrets, page.Pagination, err
	})
}

// PutSecret stores a secret, or its next version. Storing the same value again changes nothing.
func (c *Client) PutSecret(ctx context.Context, name, value string) (Secret, error) {
	return put[Secret](ctx, c, "/secrets/"+seg(name), SecretRequest{Value: value})
}

// DeleteSecret deletes a secret; executions that use it fail from then on. While jobs use it, it fails with
// ErrConflict, unless forced.
func (c *Client) DeleteSecret(ctx context.Context, name string, force bool) (Secret, error) {
	path := "/secrets/" + seg(name)
	if force {
		path += "?force=true"
	}
	return drop[Secret](ctx, c, path)
}

// SigningSecrets reads the metadata of the secrets that sign callbacks, newest first, never the secrets themselves.
func (c *Client) SigningSecrets(ctx context.Context) ([]SigningSecret, error) {
	all, err := get[SigningSecrets](ctx, c, "/signing-secrets")
	return all.SigningSecrets, err
}

// AddSigningSecret makes a signing secret that replaces the one before. Only this response shows it.
func (c *Client) AddSigningSecret(ctx context.Context, r SigningSecretRequest) (SigningSecret, error) {
	return post[SigningSecret](ctx, c, "/signing-secrets", r)
}

// RevealSigningSecret shows a signing secret that nobody has been shown yet. It does so once.
func (c *Client) RevealSigningSecret(ctx context.Context, id string) (SigningSecret, error) {
	return post[SigningSecret](ctx, c, "/signing-secrets/"+seg(id)+"/reveal", nil)
}

// DeleteSigningSecret revokes a signing secret.
func (c *Client) DeleteSigningSecret(ctx context.Context, id string) (SigningSecret, error) {
	return drop[SigningSecret](ctx, c, "/signing-secrets/"+seg(id))
}

// CreateKey creates an API key. Only this response contains its text; if the response is lost, the key is useless.
func (c *Client) CreateKey(ctx context.Context, r KeyRequest) (APIKey, error) {
	return post[APIKey](ctx, c, "/api-keys", r)
}

// Key reads the metadata of an API key.
func (c *Client) Key(ctx context.Context, id string) (APIKey, error) {
	return get[APIKey](ctx, c, "/api-keys/"+seg(id))
}

// ListKeys reads a page of API keys, newest first.
func (c *Client) ListKeys(ctx context.Context, p Page) (APIKeys, error) {
	return get[APIKeys](ctx, c, p.params().on("/api-keys"))
}

// Keys iterates over all API keys, newest first.
func (c *Client) Keys(ctx context.Context) iter.Seq2[APIKey, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]APIKey, Pagination, error) {
		page, err := c.ListKeys(ctx, p)
		return page.APIKeys, page.Pagination, err
	})
}

// RotateKey replaces a key with a new one; the old one continues to work for a while. As with CreateKey, the text is
// shown once.
func (c *Client) RotateKey(ctx context.Context, id string, r RotateRequest) (APIKey, error) {
	return post[APIKey](ctx, c, "/api-keys/"+seg(id)+"/rotate", r)
}

// RevokeKey revokes an API key; every server refuses it within 5 s.
func (c *Client) RevokeKey(ctx context.Context, id string) (APIKey, error) {
	return drop[APIKey](ctx, c, "/api-keys/"+seg(id))
}

// CreateTenant creates a tenant.
func (c *Client) CreateTenant(ctx context.Context, r TenantRequest) (Tenant, error) {
	return post[Tenant](ctx, c, "/tenants", r)
}

// Tenant reads a tenant.
func (c *Client) Tenant(ctx context.Context, id string) (Tenant, error) {
	return get[Tenant](ctx, c, "/tenants/"+seg(id))
}

// ListTenants reads a page of tenants.
func (c *Client) ListTenants(ctx context.Context, p Page) (Tenants, error) {
	return get[Tenants](ctx, c, p.params().on("/tenants"))
}

// Tenants iterates over all tenants.
func (c *Client) Tenants(ctx context.Context) iter.Seq2[Tenant, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Tenant, Pagination, error) {
		page, err := c.ListTenants(ctx, p)
		return page.Tenants, page.Pagination, err
	})
}

// ChangeTenant changes a tenant.
func (c *Client) ChangeTenant(ctx context.Context, id string, change TenantChange) (t Tenant, err error) {
	err = c.call(ctx, http.MethodPatch, "/tenants/"+seg(id), change, &t)
	return t, err
}

// Quotas reads the quotas and the usage of the credential's tenant.
func (c *Client) Quotas(ctx context.Context) (Allowance, error) {
	return get[Allowance](ctx, c, "/quotas")
}

// ListLimits reads a page of the limits of the tenant and of its queues.
func (c *Client) ListLimits(ctx context.Context, p Page) (Limits, error) {
	return get[Limits](ctx, c, p.params().on("/limits"))
}

// Limits iterates over the limits of the tenant and of its queues.
func (c *Client) Limits(ctx context.Context) iter.Seq2[Limit, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Limit, Pagination, error) {
		page, err := c.ListLimits(ctx, p)
		return page.Limits, page.Pagination, err
	})
}

// SetTenantLimit sets the limit over all executions of the tenant; an empty one removes it.
func (c *Client) SetTenantLimit(ctx context.Context, r LimitRequest) (Limit, error) {
	return put[Limit](ctx, c, "/limits/tenant", r)
}

// SetQueueLimit sets the limit over the executions of one queue; an empty one removes it.
func (c *Client) SetQueueLimit(ctx context.Context, queue string, r LimitRequest) (Limit, error) {
	return put[Limit](ctx, c, "/limits/queues/"+seg(queue), r)
}

// ListWorkers reads a page of workers, newest first.
func (c *Client) ListWorkers(ctx context.Context, p Page) (Workers, error) {
	return get[Workers](ctx, c, p.params().on("/workers"))
}

// Workers iterates over all workers, newest first.
func (c *Client) Workers(ctx context.Context) iter.Seq2[Worker, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Worker, Pagination, error) {
		page, err := c.ListWorkers(ctx, p)
		return page.Workers, page.Pagination, err
	})
}

// Worker reads a worker.
func (c *Client) Worker(ctx context.Context, id string) (Worker, error) {
	return get[Worker](ctx, c, "/workers/"+seg(id))
}

// DrainWorker makes a worker take no more work and finish what it has.
func (c *Client) DrainWorker(ctx context.Context, id string) (Draining, error) {
	return post[Draining](ctx, c, "/workers/"+seg(id)+"/drain", nil)
}

// CordonWorker keeps a worker from being given more work until it is uncordoned; it stays registered and continues
// with what it has.
func (c *Client) CordonWorker(ctx context.Context, id string) (Worker, error) {
	return post[Worker](ctx, c, "/workers/"+seg(id)+"/cordon", nil)
}

// UncordonWorker lets a worker be given work again.
func (c *Client) UncordonWorker(ctx context.Context, id string) (Worker, error) {
	return post[Worker](ctx, c, "/workers/"+seg(id)+"/uncordon", nil)
}

// Scaling returns how many workers the load needs, over all tenants, or only for the named queues.
func (c *Client) Scaling(ctx context.Context, queues ...string) (Scaling, error) {
	q := params{}
	q.list("queue", queues)
	return get[Scaling](ctx, c, q.on("/admin/scaling"))
}

// QueueStatus returns the state of the whole installation, with counts of each of the last minutes, up to 1440.
func (c *Client) QueueStatus(ctx context.Context, minutes int) (QueueStatus, error) {
	q := params{}
	q.number("minutes", minutes)
	return get[QueueStatus](ctx, c, q.on("/admin/queue/status"))
}

// NotificationRule reads a notification rule.
func (c *Client) NotificationRule(ctx context.Context, name string) (NotificationRule, error) {
	return get[NotificationRule](ctx, c, "/notification-rules/"+seg(name))
}

// ListNotificationRules reads a page of notification rules.
func (c *Client) ListNotificationRules(ctx context.Context, p Page) (NotificationRules, error) {
	return get[NotificationRules](ctx, c, p.params().on("/notification-rules"))
}

// NotificationRules iterates over all notification rules.
func (c *Client) NotificationRules(ctx context.Context) iter.Seq2[NotificationRule, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]NotificationRule, Pagination, error) {
		page, err := c.ListNotificationRules(ctx, p)
		return page.NotificationRules, page.Pagination, err
	})
}

// PutNotificationRule creates or replaces a notification rule.
func (c *Client) PutNotificationRule(ctx context.Context, name string, r NotificationRuleRequest) (NotificationRule, error) {
	return put[NotificationRule](ctx, c, "/notification-rules/"+seg(name), r)
}

// DeleteNotificationRule deletes a notification rule.
func (c *Client) DeleteNotificationRule(ctx context.Context, name string) (NotificationRule, error) {
	return drop[NotificationRule](ctx, c, "/notification-rules/"+seg(name))
}

// TestNotificationRule sends a sample notification and returns the execution that delivers it.
func (c *Client) TestNotificationRule(ctx context.Context, name string) (Triggered, error) {
	return post[Triggered](ctx, c, "/notification-rules/"+seg(name)+"/test", nil)
}
