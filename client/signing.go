package client

import "time"

// SigningSecretRequest is the body of a request to make a signing secret.
type SigningSecretRequest struct {
	Algorithm      string `json:"algorithm,omitempty" enum:"hmac-sha256,ed25519" doc:"hmac-sha256 (v1, the default) uses a shared secret; ed25519 (v1a) uses a public key that targets verify with."`
	OverlapSeconds *int64 `json:"overlap_seconds,omitempty" doc:"How long the previous secrets keep signing too, 0 to 2592000 (30 days); default 86400 (a day)."`
}

// SigningSecret is a secret that signs callbacks.
type SigningSecret struct {
	ID        string     `json:"id"`
	Algorithm string     `json:"algorithm" enum:"hmac-sha256,ed25519"`
	Prefix    string     `json:"prefix" doc:"The start of the secret or public key; empty until someone has seen it."`
	Shown     bool       `json:"shown" doc:"false: nobody has seen it yet. POST /signing-secrets/{id}/reveal shows it, once."`
	PublicKey string     `json:"public_key,omitempty" doc:"For ed25519: the public key that targets verify with, as whpk_ and base64 (Standard Webhooks)."`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it stops signing; null if no newer secret replaces it."`
	Secret    string     `json:"secret,omitempty" doc:"For hmac-sha256: the secret, as whsec_ and base64 (Standard Webhooks). Only in the response that creates or reveals it."`
}

// SigningSecrets lists all signing secrets of a tenant, newest first.
type SigningSecrets struct {
	SigningSecrets []SigningSecret `json:"signing_secrets"`
	Pagination     Pagination      `json:"pagination"`
}
