package client

import (
	"context"
	"iter"
	"time"
)

// SignInRequest holds the credential with which a browser signs in.
type SignInRequest struct {
	Credential string  `json:"credential" doc:"An API key, or a token (JWT)."`
	Next       *string `json:"next,omitempty" doc:"The path on this server to go to afterwards; anything else becomes /."`
}

// SignedIn identifies the user or key that a request acts for.
type SignedIn struct {
	TenantID      string     `json:"tenant_id" doc:"The tenant; * for a worker key that serves all tenants."`
	Role          string     `json:"role" enum:"viewer,operator,admin,worker,system"`
	Name          string     `json:"name" doc:"The name of the API key, or the sub of the token."`
	KeyID         *string    `json:"key_id" doc:"null if it is not an API key."`
	Kind          string     `json:"kind" enum:"cookie,key,token,none" doc:"The kind of credential; none if this server requires no sign-in."`
	SignedInAt    *time.Time `json:"signed_in_at" doc:"For a cookie: when it was issued."`
	IdleExpiresAt *time.Time `json:"idle_expires_at" doc:"For a cookie: when it ends unless it is used again."`
	ExpiresAt     *time.Time `json:"expires_at" doc:"For a cookie: when it ends at the latest; null for other credentials."`
	Next          *string    `json:"next,omitempty" doc:"For a sign-in: the path to go to."`
}

// SignIn is the sign-in of a browser, as admins of its tenant see it.
type SignIn struct {
	SignInID      string    `json:"sign_in_id" doc:"It grants no access; the audit log refers to it."`
	TenantID      string    `json:"tenant_id"`
	Name          string    `json:"name" doc:"The name of the API key, or the sub of the token."`
	Role          string    `json:"role" enum:"viewer,operator,admin,worker,system"`
	Kind          string    `json:"kind" enum:"key,token" doc:"The kind of credential it was created with."`
	KeyID         *string   `json:"key_id" doc:"null if it was created with a token."`
	Current       bool      `json:"current" doc:"Whether it is the sign-in of this request."`
	SignedInAt    time.Time `json:"signed_in_at"`
	LastUsedAt    time.Time `json:"last_used_at" doc:"Exact to about a minute."`
	IdleExpiresAt time.Time `json:"idle_expires_at" doc:"When it ends unless it is used again, to about a minute."`
	ExpiresAt     time.Time `json:"expires_at" doc:"When it ends at the latest."`
}

// SignIns lists active sign-ins, newest first.
type SignIns struct {
	SignIns    []SignIn   `json:"sign_ins"`
	Pagination Pagination `json:"pagination"`
}

// SignIn signs in as a browser does. Later requests are authenticated by the cookie of the response, so the client's
// http.Client needs a cookie jar; other programs send their key with each request.
func (c *Client) SignIn(ctx context.Context, r SignInRequest) (SignedIn, error) {
	return post[SignedIn](ctx, c, "/sign-in", r)
}

// SignOut ends the sign-in.
func (c *Client) SignOut(ctx context.Context) error {
	_, err := post[struct{}](ctx, c, "/sign-out", nil)
	return err
}

// WhoAmI returns the user or key that the client's requests act for.
func (c *Client) WhoAmI(ctx context.Context) (SignedIn, error) {
	return get[SignedIn](ctx, c, "/session")
}

// ListSignIns reads a page of the tenant's active sign-ins, newest first.
func (c *Client) ListSignIns(ctx context.Context, p Page) (SignIns, error) {
	return get[SignIns](ctx, c, p.params().on("/sign-ins"))
}

// SignIns iterates over the tenant's active sign-ins, newest first.
func (c *Client) SignIns(ctx context.Context) iter.Seq2[SignIn, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]SignIn, Pagination, error) {
		page, err := c.ListSignIns(ctx, p)
		return page.SignIns, page.Pagination, err
	})
}

// EndSignIn ends the sign-in of a browser; every server refuses it within 5 s. The credential it signed in with stays
// valid.
func (c *Client) EndSignIn(ctx context.Context, id string) (SignIn, error) {
	return drop[SignIn](ctx, c, "/sign-ins/"+seg(id))
}
