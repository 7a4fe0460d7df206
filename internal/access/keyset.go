package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
)

// ErrKeys means that the issuer's keys cannot be read: nobody can tell whether a token is valid.
var ErrKeys = errors.New("the issuer's keys cannot be read")

// How often an issuer is asked for its keys.
const (
	keysFresh  = 10 * time.Minute // how long read keys are considered current
	keysStale  = 24 * time.Hour   // likewise, while the issuer cannot be reached
	keysAgain  = 30 * time.Second // between reads for a key that was missing, or after a failure
	maxKeysDoc = 256 << 10
	maxKeySet  = 100
)

// KeysWait limits a request to an issuer.
const KeysWait = 5 * time.Second

// publicKey is one of an issuer's keys.
type publicKey struct {
	id     string
	alg    string // the only one it is for; empty: what its kind allows
	public any
}

// keySet is the keys that an issuer publishes, read when needed.
type keySet struct {
	url    string
	clock  clock.Clock
	client *http.Client

	asking sync.Mutex // held by the goroutine that asks the issuer

	mu      sync.Mutex
	keys    []publicKey // guarded by mu
	readAt  time.Time   // guarded by mu
	askedAt time.Time   // guarded by mu
	err     error       // guarded by mu: of the last look
}

func newKeySet(url string, c *http.Client, clk clock.Clock) *keySet {
	if c == nil {
		c = &http.Client{Timeout: KeysWait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &keySet{url: url, clock: clk, client: c}
}

// find lists the keys with an id, or all if the token names none. If there is none with that id it asks the issuer
// again, though not often: anybody can name an unknown one. Keys that are merely old are used while the issuer is
// asked.
func (s *keySet) find(ctx context.Context, id string) ([]publicKey, error) {
	found, old, _ := s.look(id)
	switch {
	case len(found) > 0 && !old:
		return found, nil
	case len(found) > 0:
		go s.refresh(context.WithoutCancel(ctx))
		return found, nil
	}
	s.refresh(ctx)
	found, _, err := s.look(id)
	if len(found) == 0 && err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return found, nil
}

// look returns the known keys with an id, whether they are old, and the error of the last request to the issuer.
func (s *keySet) look(id string) (found []publicKey, old bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.clock.Now().Sub(s.readAt)
	if age >= keysStale {
		return nil, true, s.err
	}
	return s.of(id), age >= keysFresh, s.err
}

// refresh asks the issuer, unless that was just done.
func (s *keySet) refresh(ctx context.Context) {
	s.asking.Lock()
	defer s.asking.Unlock()
	now := s.clock.Now()
	s.mu.Lock()
	early := now.Sub(s.askedAt) < keysAgain
	if !early {
		s.askedAt = now
	}
	s.mu.Unlock()
	if early {
		return
	}
	keys, err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err == nil {
		s.keys, s.readAt = keys, now
	}
}

// of lists the keys of an id. The caller holds mu.
func (s *keySet) of(id string) (out []publicKey) {
	for _, k := range s.keys {
		if id == "" || k.id == id {
			out = append(out, k)
		}
	}
	return out
}

// read asks the issuer.
func (s *keySet) read(ctx context.Context) ([]publicKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), KeysWait) // the caller may give up; the others want the answer
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxKeysDoc+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered %d", s.url, resp.StatusCode)
	case len(data) > maxKeysDoc:
		return nil, fmt.Errorf("%s answered with more than %d bytes", s.url, maxKeysDoc)
	}
	return parseKeys(data)
}

// parseKeys parses a JWK set. It skips keys that are not for checking signatures, or of an unknown kind.
func parseKeys(data []byte) ([]publicKey, error) {
	var doc struct {
		Keys []struct {
			Kty, Kid, Use, Alg, Crv, N, E, X, Y string
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	if len(doc.Keys) > maxKeySet {
		return nil, fmt.Errorf("the key set has %d keys; at most %d are read", len(doc.Keys), maxKeySet)
	}
	var out []publicKey
	for _, k := range doc.Keys {
		if k.Use != "" && k.Use != "sig" {
			continue
		}
		p := publicKey{id: k.Kid, alg: k.Alg}
		switch k.Kty + " " + k.Crv {
		case "RSA ":
			p.public = rsaKey(number(k.N), number(k.E))
		case "EC P-256":
			p.public = ecKey(decoded(k.X), decoded(k.Y))
		case "OKP Ed25519":
			if x := decoded(k.X); len(x) == ed25519.PublicKeySize {
				p.public = ed25519.PublicKey(x)
			}
		}
		if p.public != nil {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the key set has no key for RS256, ES256 or EdDSA")
	}
	return out, nil
}

func decoded(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

func number(s string) *big.Int { return new(big.Int).SetBytes(decoded(s)) }

const minRSA = 2048 // bits

// rsaKey returns a key, or nil if it is invalid or too weak.
func rsaKey(n, e *big.Int) any {
	if n.BitLen() < minRSA || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
		return nil
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}
}

// ecKey returns a key, or nil if it is not a point of the curve.
func ecKey(x, y []byte) any {
	if len(x) != 32 || len(y) != 32 {
		return nil
	}
	k, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	if err != nil {
		return nil
	}
	return k
}
