package client

import (
	"context"
	"iter"
	"time"
)

// SignInRequest is what a browser signs in with.
type SignInRequest struct {
	Credential string  `json:"credential" doc:"An API key, or a token (JWT)."`
	Next       *string `json:"next,omitempty" doc:"The path of this server to go to afterwards; anything else is /."`
}

// SignedIn is who a request acts for.
type SignedIn struct {
	TenantID      string     `json:"tenant_id" doc:"*: all, of a worker's key."`
	Role          string     `json:"role" enum:"viewer,operator,admin,worker,system"`
	Name          string     `json:"name" doc:"That of the API key; of a token its sub."`
	KeyID         *string    `json:"key_id" doc:"null: it is no API key."`
	Kind          string     `json:"kind" enum:"cookie,key,token,none" doc:"What the request came with; none: this server asks nobody who they are."`
	SignedInAt    *time.Time `json:"signed_in_at" doc:"Of a cookie."`
	IdleExpiresAt *time.Time `json:"idle_expires_at" doc:"Of a cookie: when it ends unless it is used again."`
	ExpiresAt     *time.Time `json:"expires_at" doc:"Of a cookie: when it ends in any case; null of others."`
	Next          *string    `json:"next,omitempty" doc:"Of a sign-in: the path to go to."`
}

// SignIn is a browser that is signed in, as whoever manages its tenant sees it.
type SignIn struct {
	SignInID      string    `json:"sign_in_id" doc:"It opens nothing; the audit log has it, too."`
	TenantID      string    `json:"tenant_id"`
	Name          string    `json:"name" doc:"That of the API key; of a token its sub."`
	Role          string    `json:"role" enum:"viewer,operator,admin,worker,system"`
	Kind          string    `json:"kind" enum:"key,token" doc:"What it was made with."`
	KeyID         *string   `json:"key_id" doc:"null: it was made with a token."`
	Current       bool      `json:"current" doc:"It is the one that asks."`
	SignedInAt    time.Time `json:"signed_in_at"`
	LastUsedAt    time.Time `json:"last_used_at" doc:"To about a minute."`
	IdleExpiresAt time.Time `json:"idle_expires_at" doc:"When it ends unless it is used again, to about a minute."`
	ExpiresAt     time.Time `json:"expires_at" doc:"When it ends in any case."`
}

// SignIns is who is signed in, the newest first.
type SignIns struct {
	SignIns    []SignIn   `json:"sign_ins"`
	Pagination Pagination `json:"pagination"`
}

// SignIn signs in as a browser does. The answer's cookie is what counts then, so it is of use only where the client's
// http.Client has a jar; other programs send their key with each request.
func (c *Client) SignIn(ctx context.Context, r SignInRequest) (SignedIn, error) {
	return post[SignedIn](ctx, c, "/sign-in", r)
}

// SignOut ends what SignIn began.
func (c *Client) SignOut(ctx context.Context) error {
	_, err := post[struct{}](ctx, c, "/sign-out", nil)
	return err
}

// WhoAmI is who the client's requests act for.
func (c *Client) WhoAmI(ctx context.Context) (SignedIn, error) {
	return get[SignedIn](ctx, c, "/session")
}

// ListSignIns reads a page of the tenant's browsers that are signed in, the newest first.
func (c *Client) ListSignIns(ctx context.Context, p Page) (SignIns, error) {
	return get[SignIns](ctx, c, p.params().on("/sign-ins"))
}

// SignIns goes through all of the tenant's browsers that are signed in, the newest first.
func (c *Client) SignIns(ctx context.Context) iter.Seq2[SignIn, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]SignIn, Pagination, error) {
		page, err := c.ListSignIns(ctx, p)
		return page.SignIns, page.Pagination, err
	})
}

// EndSignIn has every server refuse a browser that is signed in within 5 s. What it signed in with works on.
func (c *Client) EndSignIn(ctx context.Context, id string) (SignIn, error) {
	return drop[SignIn](ctx, c, "/sign-ins/"+seg(id))
}
