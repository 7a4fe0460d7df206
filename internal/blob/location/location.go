// Package location reads the setting that says where objects are stored: in the
// database, in a folder or in a bucket. It never opens any of them, and a
// location never holds credentials.
package location

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The kinds of places.
const (
	Database = "store"
	Folder   = "file"
	Bucket   = "s3"
)

// Location is the place of objects: the database, a folder or a bucket.
type Location struct {
	Kind string
	Path string // of a folder

	Bucket    string
	Prefix    string   // of all names in the bucket; empty or with a slash at its end
	Endpoint  *url.URL // of the S3 service: scheme and host
	Region    string   // empty: the bucket's own is asked for
	PathStyle bool
	CAFile    string // of certificates that sign the endpoint's own; empty: those that the system trusts
	SSE       string // none, AES256 or aws:kms
	KMSKey    string
}

// Encryption of objects at rest by the S3 service.
const (
	NoSSE  = ""
	SSES3  = "AES256"
	SSEKMS = "aws:kms"
)

// aws is the endpoint of those who name none.
const aws = "https://s3.amazonaws.com"

// MaxObject returns how large an object may be there, in bytes; 0: no limit of the place itself.
func (l Location) MaxObject() int64 {
	switch l.Kind {
	case Database:
		return 1 << 30
	case Bucket:
		return 5 << 30 // of one request
	}
	return 0
}

// String returns the location without what is secret, though nothing should be.
func (l Location) String() string {
	switch l.Kind {
	case Folder:
		return "file:" + l.Path
	case Bucket:
		return "s3://" + l.Bucket + "/" + l.Prefix
	}
	return "store:"
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	options    = []string{"endpoint", "region", "path_style", "ca_file", "sse", "kms_key"}
)

// Parse reads a location: store:, file:PATH or s3://BUCKET/PREFIX?OPTIONS. Its error says what is wrong and what is wanted, for the
// user who wrote it, and repeats no credentials.
func Parse(text string) (l Location, err error) {
	switch kind, rest, found := strings.Cut(text, ":"); {
	case !found:
	case kind == Database && rest == "":
		return Location{Kind: Database}, nil
	case kind == Folder:
		path := strings.TrimPrefix(rest, "//") // file:///path is file:/path
		if path == "" || strings.ContainsRune(path, 0) {
			return l, errors.New("file:PATH with the path of a folder")
		}
		return Location{Kind: Folder, Path: filepath.Clean(path)}, nil
	case kind == Bucket:
		return parseBucket(text)
	}
	return l, errors.New("store: (in the database), file:PATH (a folder that all servers share) or s3://BUCKET/PREFIX?endpoint=URL (a bucket)")
}

func parseBucket(text string) (l Location, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return l, errors.New("a valid URL such as s3://BUCKET/PREFIX?endpoint=https://s3.example.com")
	}
	if u.User != nil {
		return l, errors.New("no credentials in the URL: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use the role of the machine")
	}
	l = Location{Kind: Bucket, Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if !bucketName.MatchString(l.Bucket) {
		return l, errors.New("the name of a bucket after s3://, of 3 to 63 lower-case letters, digits, dots and hyphens")
	}
	if l.Prefix != "" {
		for part := range strings.SplitSeq(l.Prefix, "/") {
			if part == "" || part == "." || part == ".." {
				return l, errors.New("a prefix without empty segments, . and ..")
			}
		}
		l.Prefix += "/"
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return l, errors.New("options such as ?endpoint=https://s3.example.com&path_style=true")
	}
	for name, values := range q {
		if !slices.Contains(options, name) {
			return l, fmt.Errorf("only the options %s after the question mark; %.40q is none (credentials come from the environment)", strings.Join(options, ", "), name)
		}
		if len(values) != 1 || values[0] == "" {
			return l, fmt.Errorf("the option %s once, with a value", name)
		}
	}
	if l.Endpoint, err = endpoint(q.Get("endpoint")); err != nil {
		return l, err
	}
	if s := q.Get("path_style"); s != "" {
		if l.PathStyle, err = strconv.ParseBool(s); err != nil {
			return l, errors.New("path_style=true (bucket in the path) or path_style=false (bucket in the host name)")
		}
	}
	l.Region, l.CAFile, l.SSE, l.KMSKey = q.Get("region"), q.Get("ca_file"), q.Get("sse"), q.Get("kms_key")
	switch {
	case !slices.Contains([]string{NoSSE, SSES3, SSEKMS}, l.SSE):
		return l, errors.New("sse=AES256 or sse=aws:kms")
	case (l.KMSKey != "") != (l.SSE == SSEKMS):
		return l, errors.New("kms_key=ID together with sse=aws:kms")
	case l.CAFile != "" && l.Endpoint.Scheme != "https":
		return l, errors.New("ca_file together with an https:// endpoint only")
	}
	return l, nil
}

func endpoint(text string) (*url.URL, error) {
	if text == "" {
		text = aws
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("endpoint=URL with only scheme, host and port, such as endpoint=https://s3.example.com:9000")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}
