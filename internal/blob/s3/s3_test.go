package s3

import (
	"bytes"
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/blobtest"
	"github.com/carillon-jobs/carillon/internal/blob/location"
)

// real names a real S3 server for the suite, such as versitygw that scripts/with-s3 starts; its credentials are in the environment, too.
const real = "CARILLON_TEST_S3"

func TestMain(m *testing.M) {
	if os.Getenv(real) == "" {
		os.Setenv("AWS_ACCESS_KEY_ID", "test-key")
		os.Setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
	}
	os.Exit(m.Run())
}

// fake is an S3 service in this process, or the handler before it.
func fake(t *testing.T, before func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	service := gofakes3.New(s3mem.New()).Server()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			service.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func open(t *testing.T, text string) *Store {
	t.Helper()
	at, err := location.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var buckets atomic.Int64

// bucket makes a bucket and returns where it is.
func bucket(t *testing.T, endpoint string) string {
	t.Helper()
	name := fmt.Sprintf("test-%d-%d", time.Now().UnixNano(), buckets.Add(1))
	where := fmt.Sprintf("s3://%s/some/prefix?path_style=true&region=us-east-1&endpoint=%s", name, url.QueryEscape(endpoint))
	if err := open(t, where).c.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return where
}

func conform(t *testing.T, endpoint string) {
	blobtest.Run(t, blobtest.Harness{
		New: func(t *testing.T) func() blob.Store {
			where := bucket(t, endpoint)
			return func() blob.Store { return open(t, where) }
		},
		Replace: func(t *testing.T, s blob.Store, name string, data []byte) {
			x := s.(*Store)
			if _, err := x.c.PutObject(t.Context(), x.at.Bucket, x.at.Prefix+name, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, fake(t, nil))
}

func TestConformanceOfARealServer(t *testing.T) {
	t.Parallel()
	endpoint := os.Getenv(real)
	if endpoint == "" {
		t.Skip(real + " is not set: make test-all starts a server and sets it")
	}
	conform(t, endpoint)
	t.Run("wrong credentials", func(t *testing.T) {
		where := bucket(t, endpoint)
		s := open(t, where)
		at := s.at
		wrong, err := newStore(at, credentials.NewStaticV4("nobody", "wrong-secret", ""))
		if err != nil {
			t.Fatal(err)
		}
		refused(t, wrong, "credentials")
	})
	t.Run("no bucket", func(t *testing.T) {
		refused(t, open(t, "s3://no-such-bucket-here/?path_style=true&region=us-east-1&endpoint="+url.QueryEscape(endpoint)), "does not exist")
	})
}

// refused sees that whoever writes or lists is told that the place refuses, and why.
func refused(t *testing.T, s *Store, why string) {
	t.Helper()
	_, listed := s.List(t.Context(), "", "", 1)
	_, marked := blob.Mark(t.Context(), s)
	for what, err := range map[string]error{"list": listed, "mark": marked, "put": s.Put(t.Context(), blobtest.Of("a", []byte("x")), strings.NewReader("x"))} {
		if !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), s.at.Bucket) {
			t.Errorf("%s: %v, want %q", what, err, why)
		}
	}
}

func problem(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", code)
	return true
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, x := range map[string]struct {
		status int
		why    string
	}{
		"NoSuchBucket": {404, "does not exist"}, "AccessDenied": {403, "s3:PutObject"}, "InvalidAccessKeyId": {403, "the credentials are wrong"}, "SignatureDoesNotMatch": {403, "the credentials are wrong"},
		"MethodNotAllowed": {405, "takes no writes"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			endpoint := fake(t, func(w http.ResponseWriter, _ *http.Request) bool { return problem(w, x.status, code) })
			refused(t, open(t, "s3://bucket?path_style=true&region=us-east-1&endpoint="+endpoint), x.why)
		})
	}
}

// A bucket that can be read and not written is found when the mark is looked for, before anything depends on it.
func TestAReadOnlyBucket(t *testing.T) {
	t.Parallel()
	var readOnly atomic.Bool
	where := bucket(t, fake(t, func(w http.ResponseWriter, r *http.Request) bool {
		return readOnly.Load() && r.Method != "GET" && r.Method != "HEAD" && problem(w, 403, "AccessDenied")
	}))
	s := open(t, where)
	o := blobtest.Put(t, s, "a", []byte("x"))
	readOnly.Store(true)
	if _, err := s.Stat(t.Context(), o.Name); err != nil {
		t.Errorf("stat: %v", err)
	}
	if _, err := blob.Mark(t.Context(), s); !errors.Is(err, blob.ErrRefused) {
		t.Errorf("mark: %v", err)
	}
	if err := s.Delete(t.Context(), "a"); !errors.Is(err, blob.ErrRefused) {
		t.Errorf("delete: %v", err)
	}
}

// A service that ignores If-None-Match would let one server replace what another has stored.
func TestAServiceThatReplacesObjectsIsRefused(t *testing.T) {
	t.Parallel()
	where := bucket(t, fake(t, func(_ http.ResponseWriter, r *http.Request) bool { r.Header.Del("If-None-Match"); return false }))
	if _, err := blob.Mark(t.Context(), open(t, where)); !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("got %v", err)
	}
}

func TestAnUnreachableService(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	s := open(t, "s3://bucket?path_style=true&region=us-east-1&endpoint=http://"+ln.Addr().String())
	if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("stat: %v", err)
	}
	if err := s.Put(t.Context(), blobtest.Of("a", []byte("x")), strings.NewReader("x")); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
}

// A service that never answers holds nobody longer than the caller waits.
func TestASlowServiceIsBoundedByTheContext(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	endpoint := fake(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
		return true
	})
	t.Cleanup(func() { close(stop) })
	s := open(t, "s3://bucket?path_style=true&region=us-east-1&endpoint="+endpoint)
	for what, call := range map[string]func(context.Context) error{
		"stat": func(ctx context.Context) error { _, err := s.Stat(ctx, "a"); return err },
		"list": func(ctx context.Context) error { _, err := s.List(ctx, "", "", 1); return err },
		"put": func(ctx context.Context) error {
			return s.Put(ctx, blobtest.Of("a", []byte("x")), strings.NewReader("x"))
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		begun := time.Now()
		if err := call(ctx); !errors.Is(err, blob.ErrUnavailable) || time.Since(begun) > firstByte {
			t.Errorf("%s: %v after %s", what, err, time.Since(begun))
		}
		cancel()
	}
}

// The certificate of an own authority is trusted where the location names it, and the header for encryption is sent.
func TestOwnAuthorityAndEncryption(t *testing.T) {
	t.Parallel()
	service := gofakes3.New(s3mem.New()).Server()
	var header atomic.Value
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := r.Header.Get("X-Amz-Server-Side-Encryption"); v != "" {
			header.Store(v + " " + r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
		}
		service.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	where := "s3://bucket?path_style=true&region=us-east-1&endpoint=" + s.URL
	if _, err := open(t, where).Stat(t.Context(), "a"); !errors.Is(err, blob.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the authority: %v", err)
	}
	where += "&ca_file=" + url.QueryEscape(file)
	if err := open(t, where).c.MakeBucket(t.Context(), "bucket", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]string{"&sse=AES256": "AES256 ", "&sse=aws:kms&kms_key=k1": "aws:kms k1"} {
		blobtest.Put(t, open(t, where+option), "x"+want[:3], []byte("x"))
		if got := cmp.Or(header.Load(), any("")); got != want {
			t.Errorf("%s: the header is %q", option, got)
		}
	}
	at, err := location.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	at.CAFile = filepath.Join(t.TempDir(), "missing")
	if _, err := New(at); err == nil || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("a missing file: %v", err)
	}
}

// Without path_style the bucket is in the host's name.
func TestVirtualStyle(t *testing.T) {
	t.Parallel()
	s := open(t, "s3://bucket/p?endpoint=https://s3.example.com&region=us-east-1")
	u, err := s.c.PresignedGetObject(t.Context(), "bucket", "p/a", time.Minute, nil)
	if err != nil || u.Host != "bucket.s3.example.com" {
		t.Errorf("got %v, %v", u, err)
	}
}
