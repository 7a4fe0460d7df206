// Package s3 stores objects in a bucket of any S3 service. An object is written
// by one conditional request (If-None-Match), so it exists whole or not at all
// and never replaces another.
//
// Credentials come from the environment: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), a web identity
// (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN), the role of a container, or the
// role of the machine, in this order.
package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/location"
)

const (
	tries      = 3                // of a request that the service could not answer
	firstByte  = 30 * time.Second // for which an answer may take to begin
	dialing    = 5 * time.Second
	asking     = 5 * time.Second // for credentials of the machine
	listAtOnce = 1000
)

// Store is a bucket, or what is below a prefix of it.
type Store struct {
	c  *minio.Client
	at location.Location
}

var _ blob.Store = (*Store)(nil)

// New stores objects in the bucket of a location. It does not call the service.
func New(at location.Location) (*Store, error) {
	machine := &http.Client{Timeout: asking, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
	return newStore(at, credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{Client: machine}}))
}

func newStore(at location.Location, keys *credentials.Credentials) (*Store, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialing}).DialContext, TLSHandshakeTimeout: dialing,
		ResponseHeaderTimeout: firstByte, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if at.CAFile != "" {
		pem, err := os.ReadFile(at.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s has no certificate in PEM form", at.CAFile)
		}
	}
	lookup := minio.BucketLookupDNS
	if at.PathStyle {
		lookup = minio.BucketLookupPath
	}
	c, err := minio.New(at.Endpoint.Host, &minio.Options{
		Creds: keys, Secure: at.Endpoint.Scheme == "https", Region: at.Region, BucketLookup: lookup, MaxRetries: tries, Transport: transport,
	})
	if err != nil {
		return nil, err
	}
	return &Store{c, at}, nil
}

func (s *Store) String() string { return s.at.String() + " at " + s.at.Endpoint.Host }

// Put stores an object.
func (s *Store) Put(ctx context.Context, o blob.Object, content io.ReaderAt) error {
	if err := o.Check(); err != nil {
		return err
	}
	if limit := s.at.MaxObject(); o.Size > limit {
		return &blob.TooLarge{Place: s.String(), Size: o.Size, Limit: limit}
	}
	if _, err := io.Copy(io.Discard, blob.Exact(ctx, o, content)); err != nil {
		return err
	}
	opts := minio.PutObjectOptions{DisableMultipart: true, UserMetadata: map[string]string{"X-Amz-Checksum-Sha256": base64.StdEncoding.EncodeToString(o.SHA256[:])}}
	opts.SetMatchETagExcept("*")
	switch s.at.SSE {
	case location.SSES3:
		opts.ServerSideEncryption = encrypt.NewSSE()
	case location.SSEKMS:
		sse, err := encrypt.NewSSEKMS(s.at.KMSKey, nil)
		if err != nil {
			return err
		}
		opts.ServerSideEncryption = sse
	}
	_, err := s.c.PutObject(ctx, s.at.Bucket, s.at.Prefix+o.Name, io.NewSectionReader(content, 0, o.Size), o.Size, opts)
	return s.explain("store "+o.Name, err)
}

// Get reads a part of an object. The request is made at the first read.
func (s *Store) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if err := blob.CheckName(name); err != nil {
		return nil, err
	}
	info, err := s.Stat(ctx, name) // a range beyond the end is an error there
	if err != nil {
		return nil, err
	}
	n = min(n, info.Size-from)
	if n <= 0 {
		return io.NopCloser(eof{}), nil
	}
	var opts minio.GetObjectOptions
	if err := opts.SetRange(from, from+n-1); err != nil {
		return nil, err
	}
	core := minio.Core{Client: s.c}
	r, _, _, err := core.GetObject(ctx, s.at.Bucket, s.at.Prefix+name, opts)
	if err != nil {
		return nil, s.explain("read "+name, err)
	}
	return &body{r, s, name}, nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

type body struct {
	io.ReadCloser
	s    *Store
	name string
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.s.explain("read "+b.name, err)
	}
	return n, err
}

// Stat returns an object's size.
func (s *Store) Stat(ctx context.Context, name string) (blob.Info, error) {
	if err := blob.CheckName(name); err != nil {
		return blob.Info{}, err
	}
	info, err := s.c.StatObject(ctx, s.at.Bucket, s.at.Prefix+name, minio.StatObjectOptions{})
	return blob.Info{Name: name, Size: info.Size}, s.explain("find "+name, err)
}

// List returns objects by name.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the listing where enough has come
	defer cancel()
	opts := minio.ListObjectsOptions{Prefix: s.at.Prefix + prefix, Recursive: true, MaxKeys: min(limit, listAtOnce)}
	if after != "" {
		opts.StartAfter = s.at.Prefix + after
	}
	var out []blob.Info
	for x := range s.c.ListObjectsIter(ctx, s.at.Bucket, opts) {
		if x.Err != nil {
			return nil, s.explain("list "+prefix, x.Err)
		}
		if len(out) == limit {
			break
		}
		if name := x.Key[min(len(s.at.Prefix), len(x.Key)):]; name > after && blob.CheckName(name) == nil {
			out = append(out, blob.Info{Name: name, Size: x.Size})
		}
	}
	return out, s.explain("list "+prefix, ctx.Err())
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, name string) error {
	if _, err := s.Stat(ctx, name); err != nil { // the service does not say whether there was one
		return err
	}
	return s.explain("delete "+name, s.c.RemoveObject(ctx, s.at.Bucket, s.at.Prefix+name, minio.RemoveObjectOptions{}))
}
