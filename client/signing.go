package client

import "time"

// SigningSecretRequest is the body of a request to make a signing secret.
type SigningSecretRequest struct {
	Algorithm      string `json:"algorithm,omitempty" enum:"hmac-sha256,ed25519" doc:"hmac-sha256 (v1), with a secret that both sides have, when omitted; ed25519 (v1a), with a public key for the targets."`
	OverlapSeconds *int64 `json:"overlap_seconds,omitempty" doc:"For how long the secrets before it sign as well, 0 to 2592000 (30 days); 86400 (a day) when omitted."`
}

// SigningSecret is what callbacks are signed with.
type SigningSecret struct {
	ID        string     `json:"id"`
	Algorithm string     `json:"algorithm" enum:"hmac-sha256,ed25519"`
	Prefix    string     `json:"prefix" doc:"How the secret, or the public key, begins; empty while nobody was shown it."`
	Shown     bool       `json:"shown" doc:"false: nobody has seen it yet. POST /signing-secrets/{id}/reveal shows it, once."`
	PublicKey string     `json:"public_key,omitempty" doc:"Of ed25519: whpk_ and base64, as Standard Webhooks has it. Targets verify with it."`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it no longer signs; null: there is none after it yet."`
	Secret    string     `json:"secret,omitempty" doc:"Of hmac-sha256, in the answer to making or revealing it, and never again: whsec_ and base64, as Standard Webhooks has it."`
}

// SigningSecrets is all of a tenant's, the newest first.
type SigningSecrets struct {
	SigningSecrets []SigningSecret `json:"signing_secrets"`
	Pagination     Pagination      `json:"pagination"`
}
