package client

import (
	"context"
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
