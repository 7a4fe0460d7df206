package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var dist embed.FS

//go:embed missing.html
var missing []byte

// Policy is the content security policy of the pages: nothing from elsewhere, no inline script or style, and no text
// that becomes markup or code.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// kinds lists the content types of served files; nothing else is served.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".png":  "image/png",
}

// file is one of the served files.
type file struct {
	kind  string
	tag   string            // the hash of what it holds
	codes map[string][]byte // its content, by content encoding
}

// Pages are the built pages.
type Pages struct{ files map[string]file }

// Built returns the pages inside this binary.
var Built = sync.OnceValue(func() *Pages {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return load(sub)
})

func load(dir fs.FS) *Pages {
	p := &Pages{files: map[string]file{}}
	fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		kind, ok := kinds[path.Ext(name)]
		if err != nil || d.IsDir() || !ok {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		f := file{kind: kind, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, codes: map[string][]byte{"": data}}
		for code, ext := range map[string]string{"br": ".br", "gzip": ".gz"} {
			if packed, err := fs.ReadFile(dir, name+ext); err == nil {
				f.codes[code] = packed
			}
		}
		p.files[name] = f
		return nil
	})
	return p
}

// Ready reports whether the pages were built.
func (p *Pages) Ready() bool { _, ok := p.files["index.html"]; return ok }

// Page serves the page that every screen begins as, with the status.
func (p *Pages) Page(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Vary", "Accept, Accept-Encoding")
	f, ok := p.files["index.html"]
	if !ok {
		h.Set("Content-Type", kinds[".html"])
		w.WriteHeader(status)
		w.Write(missing)
		return
	}
	h.Set("Cache-Control", "no-cache")
	f.serve(w, r, status)
}

// Asset serves a file that pages load, and reports whether there is one with that name.
func (p *Pages) Asset(w http.ResponseWriter, r *http.Request, name string) bool {
	f, ok := p.files["assets/"+name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if !hashed(name) {
		h.Set("Cache-Control", "no-cache")
	}
	h.Set("Content-Security-Policy", "default-src 'none'") // for a picture that is opened directly
	h.Set("Vary", "Accept-Encoding")
	f.serve(w, r, http.StatusOK)
	return true
}

// hashed reports whether a name changes with the file's content: all but those of web/public.
func hashed(name string) bool {
	stem := strings.TrimSuffix(name, path.Ext(name))
	return len(stem) > 9 && stem[len(stem)-9] == '-'
}

func (f file) serve(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	if status == http.StatusOK && r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	data := f.codes[""]
	for _, code := range []string{"br", "gzip"} {
		if packed, ok := f.codes[code]; ok && accepts(r, code) {
			h.Set("Content-Encoding", code)
			data = packed
			break
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data) // an error here means that the caller has gone
}

// accepts reports whether the client accepts an encoding.
func accepts(r *http.Request, code string) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), code) {
			weight, given := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(q, " ", "")), "q=")
			return !given || strings.Trim(weight, "0.") != "" // 0, 0.0 and the like refuse it
		}
	}
	return false
}
