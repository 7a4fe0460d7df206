package access

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"strings"
	"testing"
)

// Whatever an issuer publishes, it is refused, or what is taken from it are keys that are strong enough.
func FuzzKeySet(f *testing.F) {
	f.Add(`{"keys": []}`)
	f.Add(`{"keys": [{"kty": "RSA", "kid": "a", "use": "sig", "n": "` + strings.Repeat("_", 342) + `", "e": "AQAB"}]}`)
	f.Add(`{"keys": [{"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`)
	f.Add(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}, {"kty": "oct", "k": "x"}]}`)
	f.Fuzz(func(t *testing.T, doc string) {
		keys, err := parseKeys([]byte(doc))
		if (err == nil) != (len(keys) > 0) || len(keys) > maxKeySet {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			switch p := k.public.(type) {
			case *rsa.PublicKey:
				if p.N.BitLen() < minRSA || p.E < 3 {
					t.Errorf("a weak key: %d bits, %d", p.N.BitLen(), p.E)
				}
			case *ecdsa.PublicKey:
				if _, err := p.ECDH(); err != nil {
					t.Error(err)
				}
			case ed25519.PublicKey:
				if len(p) != ed25519.PublicKeySize {
					t.Errorf("%d bytes", len(p))
				}
			default:
				t.Errorf("a key of type %T", p)
			}
		}
	})
}
