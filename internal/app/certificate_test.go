package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/app"
)

// pair writes a certificate for loopback and its key, as of an instant.
func pair(t *testing.T, dir string, serial int64, at time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "carillon"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour),
	}
	public, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	written(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})), at)
	written(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), at)
	return cert, key
}

func written(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// shown is the serial number of the certificate that a new connection is shown.
func shown(t *testing.T, url string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestTLS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	cert, key := pair(t, dir, 1, now)
	s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) { o.Config.TLSCert, o.Config.TLSKey = cert, key })
	if !strings.HasPrefix(s.url, "https://127.0.0.1:") || shown(t, s.url) != 1 {
		t.Fatalf("%s does not show the certificate", s.url)
	}

	// Scrapes are plain: those of workers, behind the same Service, are so, too.
	if !strings.HasPrefix(s.metrics, "http://") || len(s.scrape()) == 0 {
		t.Errorf("metrics are at %s", s.metrics)
	}
	if w, err := http.Get(strings.TrimSuffix(s.metrics, "/metrics") + "/healthz"); err != nil || w.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", w, err)
	}

	pair(t, dir, 2, now.Add(time.Second))
	if got := shown(t, s.url); got != 2 {
		t.Errorf("the certificate was replaced, and number %d is shown", got)
	}
	written(t, key, "half a key", now.Add(2*time.Second))
	for range 2 {
		if got := shown(t, s.url); got != 2 {
			t.Errorf("the key cannot be read, and number %d is shown", got)
		}
	}
	pair(t, dir, 3, now.Add(3*time.Second))
	if got := shown(t, s.url); got != 3 {
		t.Errorf("the certificate was mended, and number %d is shown", got)
	}
}
