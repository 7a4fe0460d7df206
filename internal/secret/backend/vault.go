package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/secret"
)

// How Vault is queried.
const (
	vaultTimeout = 3 * time.Second // for one request: claims wait for it
	maxAnswer    = 1 << 20
)

// The ways to sign in to Vault.
const (
	AuthToken      = "token"
	AuthAppRole    = "approle"
	AuthKubernetes = "kubernetes"
)

// VaultConfig configures where Vault is and how to sign in.
type VaultConfig struct {
	Address   string // such as https://vault.internal:8200
	Mount     string // of the key-value store, version 2
	Prefix    string // of the paths, before the tenant's id
	Namespace string // of Vault Enterprise
	CAFile    string // trusted in place of the system's CAs

	Auth       string // AuthToken and so on
	AuthPath   string // where the method is mounted; empty: under its own name
	Token      string // for AuthToken; empty: it is in Credential
	Role       string // role_id, or the role for AuthKubernetes
	Credential string // file of the token, of the secret_id, or of the service account's token
}

// Vault is the key-value store, version 2, of HashiCorp Vault.
type Vault struct {
	cfg    VaultConfig
	client *http.Client
	now    func() time.Time

	mu    sync.Mutex
	token string    // guarded by mu
	until time.Time // guarded by mu: when to sign in again
}

// NewVault makes a backend. It sends no request yet.
func NewVault(c VaultConfig) (*Vault, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of secrets.vault_ca_file: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("secrets.vault_ca_file %s has no certificate in PEM", c.CAFile)
		}
	}
	return &Vault{cfg: c, now: time.Now, client: &http.Client{
		Transport: t, Timeout: vaultTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token goes to nobody else
	}}, nil
}

// Read reads a field of a secret; without a name the field "value".
func (v *Vault) Read(ctx context.Context, t tenant.ID, p secret.Path) (string, error) {
	if !secret.Segment(string(t)) {
		return "", secret.ErrMissing
	}
	parts := append([]string{v.cfg.Mount, "data"}, strings.FieldsFunc(v.cfg.Prefix, func(c rune) bool { return c == '/' })...)
	path := strings.Join(append(append(parts, string(t)), p.Segments...), "/")
	var answer struct {
		Data struct {
			Data map[string]json.RawMessage `json:"data"`
		} `json:"data"`
	}
	status, err := v.authorized(ctx, path, &answer)
	switch {
	case err != nil:
		return "", err
	case status == http.StatusNotFound:
		return "", secret.ErrMissing
	case status != http.StatusOK:
		return "", v.refused(status)
	}
	field := p.Field
	if field == "" {
		field = "value"
	}
	raw, ok := answer.Data.Data[field]
	if !ok || string(raw) == "null" {
		return "", secret.ErrMissing
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	return string(raw), nil // a number, or a document
}

// authorized sends a request with a token, and retries with a new one if it is refused.
func (v *Vault) authorized(ctx context.Context, path string, answer any) (int, error) {
	for again := range 2 {
		token, err := v.signIn(ctx, again > 0)
		if err != nil {
			return 0, err
		}
		status, err := v.ask(ctx, http.MethodGet, path, token, nil, answer)
		if err != nil || status != http.StatusForbidden || again > 0 {
			return status, err
		}
	}
	return 0, nil
}

// signIn returns a token for requests.
func (v *Vault) signIn(ctx context.Context, fresh bool) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !fresh && v.token != "" && v.now().Before(v.until) {
		return v.token, nil
	}
	if v.cfg.Auth == AuthToken || v.cfg.Auth == "" {
		return v.given()
	}
	credential, err := readOne(v.cfg.Credential)
	if err != nil {
		return "", v.failed(err)
	}
	body := map[string]string{"role_id": v.cfg.Role, "secret_id": credential}
	if v.cfg.Auth == AuthKubernetes {
		body = map[string]string{"role": v.cfg.Role, "jwt": credential}
	}
	at := v.cfg.AuthPath
	if at == "" {
		at = v.cfg.Auth
	}
	var answer struct {
		Auth struct {
			ClientToken   string `json:"client_token"`
			LeaseDuration int64  `json:"lease_duration"`
		} `json:"auth"`
	}
	status, err := v.ask(ctx, http.MethodPost, "auth/"+strings.Trim(at, "/")+"/login", "", body, &answer)
	switch {
	case err != nil:
		return "", err
	case status != http.StatusOK || answer.Auth.ClientToken == "":
		return "", fmt.Errorf("%w signing in by %s", v.refused(status), v.cfg.Auth)
	}
	life := time.Duration(answer.Auth.LeaseDuration) * time.Second
	if life <= 0 {
		life = time.Hour
	}
	v.token, v.until = answer.Auth.ClientToken, v.now().Add(life*2/3)
	return v.token, nil
}

// given returns the token of the settings. A file is read again each minute, or when its token was refused. The
// caller holds mu.
func (v *Vault) given() (string, error) {
	if v.cfg.Token != "" {
		return v.cfg.Token, nil
	}
	token, err := readOne(v.cfg.Credential)
	if err != nil {
		return "", v.failed(err)
	}
	v.token, v.until = token, v.now().Add(time.Minute)
	return token, nil
}

// ask sends a request and reads the answer.
func (v *Vault) ask(ctx context.Context, method, path, token string, body, answer any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, vaultTimeout)
	defer cancel()
	var data io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		data = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(v.cfg.Address, "/")+"/v1/"+path, data)
	if err != nil {
		return 0, v.failed(err)
	}
	r.Header.Set("X-Vault-Request", "true")
	if token != "" {
		r.Header.Set("X-Vault-Token", token)
	}
	if v.cfg.Namespace != "" {
		r.Header.Set("X-Vault-Namespace", v.cfg.Namespace)
	}
	w, err := v.client.Do(r)
	if err != nil {
		return 0, &secret.Away{Err: v.failed(err)}
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		return w.StatusCode, nil // its text may be anything
	}
	err = json.NewDecoder(io.LimitReader(w.Body, maxAnswer)).Decode(answer)
	var broke net.Error
	switch {
	case errors.As(err, &broke) || err != nil && ctx.Err() != nil:
		return 0, &secret.Away{Err: v.failed(err)}
	case err != nil: // an error about its length concerns only this path
		return 0, v.failed(errors.New("its answer is not what Vault answers"))
	}
	return w.StatusCode, nil
}

func (v *Vault) failed(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the address, which is named
	}
	return fmt.Errorf("the secret backend vault (%s) could not be reached: %w", v.cfg.Address, err)
}

// refused returns the error for another status. A forbidden path does not affect others.
func (v *Vault) refused(status int) error {
	err := fmt.Errorf("the secret backend vault (%s) answered %d %s", v.cfg.Address, status, http.StatusText(status))
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
		return &secret.Away{Err: err}
	}
	return err
}

// readOne reads a file with one text.
func readOne(file string) (string, error) {
	data, err := os.ReadFile(file)
	return strings.TrimSpace(string(data)), err
}
