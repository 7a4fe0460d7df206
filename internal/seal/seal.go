// Package seal encrypts data at rest: AES-256-GCM under one of several keys, so that a key can be replaced while data
// sealed under the old one can still be opened.
//
//	sealed = version (1) | key id (8) | nonce (12) | ciphertext and tag
//
// Sealed data is bound to associated data, such as tenant and name: copied
// to another place it cannot be opened.
//
// The package never stores a key and no error contains a key or a text.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

const (
	version   = 1
	idSize    = 8
	nonceSize = 12
	headSize  = 1 + idSize + nonceSize
)

// The errors that callers act on.
var (
	ErrNoKey      = errors.New("no key is configured")                             // there is no ring, so nothing can be sealed or opened
	ErrUnknownKey = errors.New("it was sealed under a key that is not configured") // the key may have been removed too early
	ErrDamaged    = errors.New("it is damaged, or was sealed for another place")
)

// Ring is a set of keys: the first one seals, all of them open. A nil ring has none.
type Ring struct {
	first id
	keys  map[id]cipher.AEAD
}

type id [idSize]byte

// NewRing makes a ring of keys of KeySize bytes.
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		return nil, ErrNoKey
	}
	r := &Ring{keys: make(map[id]cipher.AEAD, len(keys))}
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("key %d has %d bytes; want %d", i+1, len(key), KeySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		name := idOf(key)
		if i == 0 {
			r.first = name
		}
		r.keys[name] = aead
	}
	return r, nil
}

// idOf names a key without revealing anything about it.
func idOf(key []byte) id {
	sum := sha256.Sum256(append([]byte("carillon seal key id\x00"), key...))
	return id(sum[:idSize])
}

// ParseKeys parses keys as in a file or a variable: base64, one per line; empty lines and those that begin with # are
// ignored.
func ParseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != KeySize {
			return nil, fmt.Errorf("line %d is not a key: want %d random bytes in base64, such as `openssl rand -base64 %d` prints", i+1, KeySize, KeySize)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}

// NewKey generates a key, in the form that ParseKeys reads.
func NewKey() string {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // it never fails
	return base64.StdEncoding.EncodeToString(key)
}

// Seal encrypts a text and binds it to aad.
func (r *Ring) Seal(aad string, plain []byte) ([]byte, error) {
	if r == nil {
		return nil, ErrNoKey
	}
	out := make([]byte, headSize, headSize+len(plain)+16)
	out[0] = version
	copy(out[1:], r.first[:])
	nonce := out[1+idSize : headSize]
	_, _ = rand.Read(nonce) // it never fails
	return r.keys[r.first].Seal(out, nonce, plain, []byte(aad)), nil
}

// Open decrypts a text that was sealed with aad.
func (r *Ring) Open(aad string, sealed []byte) ([]byte, error) {
	if r == nil {
		return nil, ErrNoKey
	}
	if len(sealed) < headSize || sealed[0] != version {
		return nil, ErrDamaged
	}
	aead, ok := r.keys[id(sealed[1:1+idSize])]
	if !ok {
		return nil, fmt.Errorf("%w: key id %s", ErrUnknownKey, hex.EncodeToString(sealed[1:1+idSize]))
	}
	plain, err := aead.Open(nil, sealed[1+idSize:headSize], sealed[headSize:], []byte(aad))
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

// Current reports whether a text is sealed under the first key.
func (r *Ring) Current(sealed []byte) bool {
	return r != nil && len(sealed) >= headSize && id(sealed[1:1+idSize]) == r.first
}

// KeyID returns the id of the key that seals.
func (r *Ring) KeyID() string {
	if r == nil {
		return ""
	}
	return hex.EncodeToString(r.first[:])
}

// KeyOf returns the id of the key that a text is sealed under; empty if it is none of the ring's.
func KeyOf(sealed []byte) string {
	if len(sealed) < headSize || sealed[0] != version {
		return ""
	}
	return hex.EncodeToString(sealed[1 : 1+idSize])
}
