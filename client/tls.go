package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
)

// TLS names the files for a client's encrypted connections. All are optional.
type TLS struct {
	Cert string // the client's own certificate, for servers that require one (mutual TLS), with Key
	Key  string // its private key
	CA   string // the CA certificates to trust, in place of the system's
}

// Config reads the files. A replaced certificate is used for the next connection; if the new pair cannot be read, the
// old one stays in use.
func (f TLS) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("a client's certificate and its key go together: one of the two files is missing")
	}
	if f.CA != "" {
		data, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of those who sign: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", f.CA)
		}
	}
	if f.Cert != "" {
		last, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate: %w", err)
		}
		var mu sync.Mutex // guards last
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			mu.Lock()
			defer mu.Unlock()
			if next, err := tls.LoadX509KeyPair(f.Cert, f.Key); err == nil {
				last = next
			}
			pair := last
			return &pair, nil
		}
	}
	return c, nil
}

// WithTLS sets the TLS configuration of connections, such as one of TLS.Config.
func WithTLS(config *tls.Config) Option {
	return func(c *Client) {
		if t, ok := c.http.Transport.(*http.Transport); ok {
			t = t.Clone()
			t.TLSClientConfig = config
			h := *c.http
			h.Transport = t
			c.http = &h
		}
	}
}
