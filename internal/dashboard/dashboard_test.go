package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

var built = fstest.MapFS{
	"index.html":                  {Data: []byte("<!doctype html>page")},
	"assets/index-CXWqS-3E.js":    {Data: []byte("plain")},
	"assets/index-CXWqS-3E.js.gz": {Data: []byte("packed")},
	"assets/index-CXWqS-3E.js.br": {Data: []byte("tight")},
	"assets/bell.svg":             {Data: []byte("<svg/>")},
	"assets/notes.txt":            {Data: []byte("nobody's business")},
}

func ask(p *Pages, name, encodings string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/assets/"+name, nil)
	r.Header.Set("Accept-Encoding", encodings)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	if !p.Asset(w, r, name) {
		w.Code = 404
	}
	return w
}

func TestAssets(t *testing.T) {
	t.Parallel()
	p := load(built)
	for _, c := range []struct {
		name, encodings, body, encoding, cache string
		code                                   int
	}{
		{"index-CXWqS-3E.js", "gzip, deflate, br", "tight", "br", "immutable", 200},
		{"index-CXWqS-3E.js", "gzip;q=0.5", "packed", "gzip", "immutable", 200},
		{"index-CXWqS-3E.js", "br;q=0, gzip;q=0", "plain", "", "immutable", 200},
		{"index-CXWqS-3E.js", "br; q=0.000, gzip;q=0.05", "packed", "gzip", "immutable", 200},
		{"index-CXWqS-3E.js", "br;Q=0., gzip;q=0.001", "packed", "gzip", "immutable", 200},
		{"index-CXWqS-3E.js", "", "plain", "", "immutable", 200},
		{"bell.svg", "gzip", "<svg/>", "", "no-cache", 200},
		{"index-CXWqS-3E.js.gz", "", "", "", "", 404},
		{"notes.txt", "", "", "", "", 404},
		{"../index.html", "", "", "", "", 404},
		{"nothing-00000000.js", "", "", "", "", 404},
	} {
		w := ask(p, c.name, c.encodings)
		if w.Code != c.code || c.code == 200 && (w.Body.String() != c.body || w.Header().Get("Content-Encoding") != c.encoding || !strings.Contains(w.Header().Get("Cache-Control"), c.cache)) {
			t.Errorf("%s with %q: %d, %q, %v", c.name, c.encodings, w.Code, w.Body, w.Header())
		}
	}
	first := ask(p, "bell.svg", "")
	if w := ask(p, "bell.svg", "", "If-None-Match", first.Header().Get("ETag")); w.Code != 304 || w.Body.Len() != 0 {
		t.Errorf("asked again: %d", w.Code)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*Pages{"page": load(built), "make dashboard": load(fstest.MapFS{".gitkeep": {}})} {
		w := httptest.NewRecorder()
		p.Page(w, httptest.NewRequest("GET", "/jobs", nil), http.StatusOK)
		if h := w.Header(); !strings.Contains(w.Body.String(), name) || h.Get("Content-Security-Policy") != Policy || h.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %d, %q, %v", name, w.Code, w.Body, h)
		}
		if strings.Contains(w.Body.String(), "<script>") || strings.Contains(w.Body.String(), "style=") {
			t.Errorf("%s: what its own policy forbids is in it", name)
		}
	}
	if load(fstest.MapFS{}).Ready() || !load(built).Ready() {
		t.Error("ready, or not")
	}
}
