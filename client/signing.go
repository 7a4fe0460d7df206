package client

import "time"

// SigningSecretRequest is the body of a request to make a signing secret.
type SigningSecretRequest struct {
	OverlapSeconds *int64 `json:"overlap_seconds,omitempty" doc:"For how long the secrets before it sign as well, 0 to 2592000 (30 days); 86400 (a day) when omitted."`
}

// SigningSecret is what callbacks are signed with.
type SigningSecret struct {
	ID        string     `json:"id"`
	Prefix    string     `json:"prefix" doc:"How the secret begins."`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it no longer signs; null: there is none after it yet."`
	Secret    string     `json:"secret,omitempty" doc:"In the answer to making it, and never again: whsec_ and base64, as Standard Webhooks has it."`
}

// SigningSecrets is all of a tenant's, the newest first.
type SigningSecrets struct {
	SigningSecrets []SigningSecret `json:"signing_secrets"`
	Pagination     Pagination      `json:"pagination"`
}
