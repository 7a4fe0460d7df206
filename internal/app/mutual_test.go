package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

// authority signs certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.file = filepath.Join(a.dir, "ca.crt")
	written(t, a.file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), time.Now())
	return a
}

// issue writes a certificate for loopback and its key, for one use.
func (a *authority) issue(t *testing.T, name string, use x509.ExtKeyUsage) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{use},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, about, a.cert, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	written(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), time.Now())
	written(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), time.Now())
	return cert, key
}

// A server speaks TLS 1.3, and 1.2 where it is told to.
func TestTheOldestTLS(t *testing.T) {
	ca := newAuthority(t)
	cert, certKey := ca.issue(t, "server", x509.ExtKeyUsageServerAuth)
	for least, taken := range map[string]bool{"1.3": false, "1.2": true} {
		s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) {
			o.Config.TLSCert, o.Config.TLSKey, o.Config.TLSMin = cert, certKey, least
		})
		for version, want := range map[uint16]bool{tls.VersionTLS12: taken, tls.VersionTLS13: true} {
			c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
			if err == nil {
				c.Close()
			}
			if (err == nil) != want {
				t.Errorf("tls.min_version %s, a client of %s: %v", least, tls.VersionName(version), err)
			}
		}
		s.stop()
	}
}

// Where a server has an authority of clients, workers must show a certificate of it; people need not.
func TestMutualTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	cert, certKey := ca.issue(t, "server", x509.ExtKeyUsageServerAuth)
	mine, mineKey := ca.issue(t, "worker", x509.ExtKeyUsageClientAuth)
	foreign, foreignKey := other.issue(t, "worker", x509.ExtKeyUsageClientAuth)
	start := func(auth string) *server {
		return serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) {
			c := &o.Config
			c.TLSCert, c.TLSKey, c.TLSClientCA, c.TLSClientAuth, c.Roles = cert, certKey, ca.file, auth, []string{"api", "scheduler"}
		})
	}
	ask := func(s *server, files client.TLS) *client.Client {
		cfg, err := files.Config()
		if err != nil {
			t.Fatal(err)
		}
		return client.New([]string{s.url}, key, client.WithTLS(cfg), client.WithRetries(client.Retries{}))
	}
	register := func(s *server, files client.TLS) error {
		_, err := ask(s, files).Register(t.Context(), client.Registration{Host: "here", Kinds: []string{"x"}, Capacity: 1})
		return err
	}
	s := start(config.WorkerCert)
	var no *client.Problem
	if err := register(s, client.TLS{CA: ca.file}); !errors.As(err, &no) || no.Status != 403 || no.Code != "certificate_required" {
		t.Errorf("a worker without a certificate: %v", err)
	}
	if _, err := ask(s, client.TLS{CA: ca.file}).ListJobs(t.Context(), client.JobFilter{}, client.Page{}); err != nil {
		t.Errorf("a person without a certificate: %v", err)
	}
	if err := register(s, client.TLS{CA: ca.file, Cert: mine, Key: mineKey}); err != nil {
		t.Errorf("a worker with a certificate: %v", err)
	}
	if err := register(s, client.TLS{CA: ca.file, Cert: foreign, Key: foreignKey}); err == nil {
		t.Error("a worker with another authority's certificate is let in")
	}
	if err := register(s, client.TLS{Cert: mine, Key: mineKey}); err == nil {
		t.Error("a worker trusts a server whose certificate nobody it knows has signed")
	}
	works(t, s, ca.file, mine, mineKey)
	s.stop()
	if err := register(start(config.OptionalCert), client.TLS{CA: ca.file}); err != nil {
		t.Errorf("a worker without a certificate, where it is optional: %v", err)
	}
	for _, files := range []client.TLS{{Cert: mine}, {Key: mineKey}, {CA: mineKey}, {CA: ca.dir + "/none"}, {Cert: mine, Key: foreignKey}} {
		if _, err := files.Config(); err == nil {
			t.Errorf("taken: %+v", files)
		}
	}
}

// works runs a worker with certificates, and a job on it.
func works(t *testing.T, s *server, ca, cert, certKey string) {
	t.Helper()
	c := config.Default()
	c.Listen, c.TLSCA, c.TLSCert, c.TLSKey, c.Workers.Drain = "127.0.0.1:0", ca, cert, certKey, time.Second
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- app.RunWorker(ctx, app.WorkerOptions{
			Options: app.Options{Config: c, Out: &output{}, Logger: slog.New(slog.DiscardHandler)}, Servers: []string{s.url}, Token: key, Capacity: 1,
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
	}()
	cfg, err := client.TLS{CA: ca}.Config()
	if err != nil {
		t.Fatal(err)
	}
	people := client.New([]string{s.url}, key, client.WithTLS(cfg))
	j, err := people.CreateJob(t.Context(), client.JobRequest{Name: "hello", Execution: client.Target{Target: "simulate", WorkKind: "noop"}})
	if err != nil {
		t.Fatal(err)
	}
	s.until("the worker to run a job", func() bool {
		e, err := people.Execution(t.Context(), j.ExecutionID)
		return err == nil && e.Status == "SUCCEEDED"
	})
}

// A worker that speaks plain HTTP over a network says so.
func TestAWorkerWarnsOfPlainHTTP(t *testing.T) {
	for server, want := range map[string]bool{
		"http://192.0.2.1:8080": true, "http://carillon.example": true, "https://192.0.2.1": false, "http://127.0.0.1:1": false, "http://localhost:1": false, "http://[::1]:1": false,
	} {
		out := &output{}
		c := config.Default()
		c.Listen, c.Workers.Drain = "127.0.0.1:0", time.Second
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it starts, and is told to stop
		err := app.RunWorker(ctx, app.WorkerOptions{
			Options: app.Options{Config: c, Out: &output{}, Logger: slog.New(slog.NewTextHandler(out, nil))}, Servers: []string{server}, Token: "a", Capacity: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "PLAIN HTTP"); got != want {
			t.Errorf("%s: warned %v, want %v\n%s", server, got, want, out)
		}
	}
}
