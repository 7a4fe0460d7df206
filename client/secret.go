package client

import "time"

// SecretRequest is the body of a request to store a secret.
type SecretRequest struct {
	Value string `json:"value" doc:"1 to 65536 bytes. It is never shown again."`
}

// Secret is the metadata of a secret, without its value.
type Secret struct {
	Name      string    `json:"name"`
	Version   int       `json:"version" doc:"Grows with every new value."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Secrets is all secrets of a tenant.
type Secrets struct {
	Secrets    []Secret   `json:"secrets"`
	Pagination Pagination `json:"pagination"`
}
