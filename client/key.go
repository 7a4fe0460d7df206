package client

import "time"

// KeyRequest is the body of a request to create an API key.
type KeyRequest struct {
	TenantID  *string    `json:"tenant_id,omitempty" doc:"Default: the tenant of your credential. For another tenant, or * for a worker key that serves all tenants, you need the role system."`
	Name      string     `json:"name" doc:"1 to 255 characters: what the key is for."`
	Role      string     `json:"role" enum:"viewer,operator,admin,worker,system"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Never when omitted."`
}

// RotateRequest is the body of a request to replace an API key.
type RotateRequest struct {
	OverlapSeconds *int64     `json:"overlap_seconds,omitempty" doc:"How long the old key keeps working, 0 to 2592000 (30 days); default 86400."`
	ExpiresAt      *time.Time `json:"expires_at,omitempty" doc:"When the new key expires; default: when the old one would have."`
}

// APIKey is an API key as returned by the API. Its text is shown only in the response that creates it.
type APIKey struct {
	KeyID      string     `json:"key_id"`
	TenantID   string     `json:"tenant_id" doc:"The tenant; * for a worker key that serves all tenants."`
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	Prefix     string     `json:"prefix" doc:"The start of the key, to recognize it."`
	Status     string     `json:"status" enum:"ACTIVE,EXPIRED,REVOKED"`
	Key        *string    `json:"key,omitempty" doc:"The key itself: only in the response that creates it, and not if that request is repeated."`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at" doc:"Exact to about a minute."`
}

// APIKeys is all keys of the tenant, newest first.
type APIKeys struct {
	APIKeys    []APIKey   `json:"api_keys"`
	Pagination Pagination `json:"pagination"`
}
