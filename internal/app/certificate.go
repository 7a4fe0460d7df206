package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/config"
)

// certificate is the server's certificate and key. A replaced pair is used from the next connection on; if it cannot
// be read, or only one file is replaced, the previous pair stays in use.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu    sync.Mutex
	pair  *tls.Certificate // guarded by mu
	tried [2]stamp         // the files' state when last read; guarded by mu
}

// stamp identifies one version of a file.
type stamp struct {
	at   time.Time
	size int64
}

// loadCertificate reads the pair for the first time.
func loadCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log}
	c.tried = c.stamps()
	pair, err := tls.LoadX509KeyPair(cert, key)
	c.pair = &pair
	return c, err
}

func (c *certificate) stamps() (out [2]stamp) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

// current returns the current pair.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := c.stamps()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now == c.tried {
		return c.pair, nil
	}
	c.tried = now
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.Warn("the certificate's files have changed but cannot be used; the previous certificate stays in use", "cert", c.cert, "key", c.key, "error", err)
		return c.pair, nil
	}
	c.pair = &pair
	c.log.Info("a new certificate is in use", "cert", c.cert, "until", pair.Leaf.NotAfter)
	return c.pair, nil
}

// config returns the TLS configuration with the current pair, according to the settings.
func (c *certificate) config(s config.Config) (*tls.Config, error) {
	out := &tls.Config{GetCertificate: c.current, MinVersion: tls.VersionTLS13}
	if s.TLSMin == "1.2" {
		out.MinVersion = tls.VersionTLS12
	}
	if s.TLSClientCA != "" {
		out.ClientAuth = tls.VerifyClientCertIfGiven // the API refuses callers that must present one
		var err error
		if out.ClientCAs, err = certificates(s.TLSClientCA); err != nil {
			return nil, config.Mistakes{{Key: "tls.client_ca", Value: s.TLSClientCA, Want: "a file of certificates: " + err.Error(), From: "as set"}}
		}
	}
	return out, nil
}

// certificates reads a file of certificates in PEM.
func certificates(path string) (*x509.CertPool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("it contains no certificate in PEM")
	}
	return pool, nil
}
