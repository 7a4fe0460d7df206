package sign

import (
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
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes, as Standard Webhooks has it
	maxSecret    = 64
	newSecret    = 32
	shownPrefix  = len(secretPrefix) + 4
)

// NewSecret makes a secret up, in the form that targets are given it.
func NewSecret() string {
	key := make([]byte, newSecret)
	_, _ = rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// Prefix is the beginning of a secret by which people know it again.
func Prefix(secret string) string { return secret[:min(len(secret), shownPrefix)] }

// ParseSecret reads a secret.
func ParseSecret(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, fmt.Errorf("a signing secret is %s and %d to %d bytes in base64", secretPrefix, minSecret, maxSecret)
	}
	return key, nil
}

// Signature is that of a body under one key, as it stands in webhook-signature.
func Signature(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
