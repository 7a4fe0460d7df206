package sign

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix  = "whsec_"
	privatePrefix = "whsk_"
	publicPrefix  = "whpk_"
	minSecret     = 24 // bytes, as in Standard Webhooks
	maxSecret     = 64
	newSecret     = 32
	shownPrefix   = len(secretPrefix) + 4
)

// Algorithm is the algorithm that a secret signs with.
type Algorithm string

// The algorithms: with a secret that both sides have, and with a key pair, of which targets have the public half.
const (
	HMAC    Algorithm = "hmac-sha256"
	Ed25519 Algorithm = "ed25519"
)

// Algorithms lists them.
func Algorithms() []Algorithm { return []Algorithm{HMAC, Ed25519} }

// NewSecret generates a secret in the form of Standard Webhooks.
func NewSecret(a Algorithm) string {
	if a == Ed25519 {
		_, private, _ := ed25519.GenerateKey(nil) // it never fails
		return privatePrefix + base64.StdEncoding.EncodeToString(private)
	}
	key := make([]byte, newSecret)
	_, _ = rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// Public returns the public part of a secret: the public key of a pair, otherwise the start of the secret, by which
// people recognise it.
func Public(secret string) string {
	if k, err := ParseSecret(secret); err == nil && k.private != nil {
		return publicPrefix + base64.StdEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
	}
	return secret[:min(len(secret), shownPrefix)]
}

// AlgorithmOf returns the algorithm of a text from Public.
func AlgorithmOf(public string) Algorithm {
	if strings.HasPrefix(public, publicPrefix) {
		return Ed25519
	}
	return HMAC
}

// Key is a secret that signs.
type Key struct {
	shared  []byte
	private ed25519.PrivateKey // nil: it is shared
}

// ParseSecret parses a secret.
func ParseSecret(secret string) (Key, error) {
	if text, ok := strings.CutPrefix(secret, privatePrefix); ok {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PrivateKeySize || !ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]).Equal(ed25519.PrivateKey(key)) {
			return Key{}, fmt.Errorf("a private signing key is %s and the %d bytes of an ed25519 key in base64", privatePrefix, ed25519.PrivateKeySize)
		}
		return Key{private: key}, nil
	}
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return Key{}, fmt.Errorf("a signing secret is %s and %d to %d bytes in base64", secretPrefix, minSecret, maxSecret)
	}
	return Key{shared: key}, nil
}

// Sign returns the signature of a body, as in the header webhook-signature.
func (k Key) Sign(id string, at time.Time, body []byte) string {
	head := id + "." + strconv.FormatInt(at.Unix(), 10) + "."
	if k.private != nil {
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, append([]byte(head), body...)))
	}
	mac := hmac.New(sha256.New, k.shared)
	mac.Write([]byte(head))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
