package location

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"store:": "store:", "file:/srv/x/": "file:/srv/x", "file:///srv/x": "file:/srv/x", "file:rel/../x": "file:x",
		"s3://bucket": "s3://bucket/", "s3://bucket/": "s3://bucket/", "s3://a.b-c/p/q/?sse=aws:kms&kms_key=k&region=eu": "s3://a.b-c/p/q/",
	} {
		if l, err := Parse(text); err != nil || l.String() != want {
			t.Errorf("%s: %s, %v", text, l, err)
		}
	}
	l, err := Parse("s3://b123/p?endpoint=http://127.0.0.1:9000/&path_style=1&sse=AES256")
	if err != nil || l.Endpoint.String() != "http://127.0.0.1:9000" || !l.PathStyle || l.SSE != SSES3 || l.Prefix != "p/" || l.Bucket != "b123" {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := Parse("s3://b123"); err != nil || l.Endpoint.String() != aws || l.PathStyle {
		t.Errorf("%+v, %v", l, err)
	}
	for text, want := range map[string]string{
		"": "store:", "store": "store:", "store:x": "store:", "/srv/x": "file:PATH", "file:": "path of a folder", "http://x": "s3://BUCKET",
		"s3://": "name of a bucket", "s3://Bucket": "lower-case", "s3://b_c": "lower-case", "s3://key:secret@bucket": "AWS_SECRET_ACCESS_KEY",
		"s3://bucket/a/../b": "prefix without", "s3://bucket?endpont=x": "endpont", "s3://bucket?access_key=x": "from the environment", "s3://bucket?region=": "with a value", "s3://bucket?region=a&region=b": "once",
		"s3://bucket?endpoint=s3.example.com": "endpoint=URL", "s3://bucket?endpoint=ftp://x": "endpoint=URL", "s3://bucket?endpoint=https://u:p@x": "endpoint=URL", "s3://bucket?endpoint=https://x/path": "endpoint=URL",
		"s3://bucket?path_style=maybe": "path_style=true", "s3://bucket?sse=rot13": "sse=AES256", "s3://bucket?sse=aws:kms": "kms_key=ID", "s3://bucket?kms_key=x": "kms_key=ID",
		"s3://bucket?endpoint=http://x&ca_file=y": "https://", "s3://bucket?a;b": "options",
	} {
		if l, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %+v, %v, want %q", text, l, err, want)
		}
	}
}
