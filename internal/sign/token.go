package sign

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// ErrToken means that a text is not a token of this installation for the execution.
var ErrToken = errors.New("the callback token is not one of this execution")

const (
	tokenPrefix = "cct_"
	keySize     = 32
	sharedName  = "callback-token-key"
)

// Tokens makes and checks the tokens with which targets complete executions.
type Tokens struct{ key []byte }

// NewTokens makes tokens under a key.
func NewTokens(key []byte) *Tokens { return &Tokens{key} }

// Sharer stores values that all servers of an installation share.
type Sharer interface {
	Share(ctx context.Context, name string, value []byte) ([]byte, error)
}

// The forms in which the key is stored: in the clear, if nothing can be sealed, or sealed.
const (
	keptPlain  = 0
	keptSealed = 1
)

// LoadTokens makes tokens under the key that the servers of a store share, which the first of them generates.
func LoadTokens(ctx context.Context, store Sharer, sealer Sealer) (*Tokens, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	value := append([]byte{keptPlain}, key...)
	switch sealed, err := sealer.Seal(sharedName, key); {
	case err == nil:
		value = append([]byte{keptSealed}, sealed...)
	case !errors.Is(err, seal.ErrNoKey):
		return nil, err
	}
	kept, err := store.Share(ctx, sharedName, value)
	if err != nil {
		return nil, fmt.Errorf("share the key of callback tokens: %w", err)
	}
	if len(kept) == 0 {
		return nil, errors.New("the stored key of callback tokens is empty")
	}
	if key = kept[1:]; kept[0] == keptSealed {
		if key, err = sealer.Open(sharedName, kept[1:]); err != nil {
			return nil, fmt.Errorf("open the stored key of callback tokens: %w", err)
		}
	}
	return NewTokens(key), nil
}

// Make returns the token for an execution under a lease.
func (t *Tokens) Make(of tenant.ID, l job.Lease) string {
	body := binary.BigEndian.AppendUint64(nil, uint64(l.Token))
	body = append(body, of...)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(t.mac(l.Execution, body), body...))
}

// Check returns the tenant and the lease of an execution's token; ErrToken if it is invalid.
func (t *Tokens) Check(id job.ExecutionID, text string) (tenant.ID, job.Lease, error) {
	text, ok := strings.CutPrefix(text, tokenPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(raw) < sha256.Size+8 || strings.ContainsAny(text, "\r\n") { // which base64 passes over
		return "", job.Lease{}, ErrToken
	}
	mac, body := raw[:sha256.Size], raw[sha256.Size:]
	if !hmac.Equal(mac, t.mac(id, body)) {
		return "", job.Lease{}, ErrToken
	}
	return tenant.ID(body[8:]), job.Lease{Execution: id, Token: job.Token(binary.BigEndian.Uint64(body))}, nil
}

func (t *Tokens) mac(id job.ExecutionID, body []byte) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte("carillon callback token\x00"))
	mac.Write(id[:])
	mac.Write(body)
	return mac.Sum(nil)
}
