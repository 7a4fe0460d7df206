package api

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"reflect"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

//go:embed pages/docs.html
var docsHTML string

//go:embed pages/style.css
var docsCSS []byte

var docsPage = template.Must(template.New("docs").Parse(docsHTML))

// entry is one route on the page.
type entry struct {
	Anchor, Method, Path, Summary, Detail, Needs, Sample string
	Status                                               int
	Params                                               []field
	Body, Answer                                         []field
}

// field is one row of a table.
type field struct{ Name, Type, Doc string }

func (s viewAPI) docs(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	page, err := s.page()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	w.Write(bytes.ReplaceAll(page, []byte(anyBase), []byte(template.HTMLEscapeString(base(r)))))
	return nil
}

// anyBase is the placeholder in the page for the address at which it is requested.
const anyBase = "http://address.invalid"

// renderDocs renders the page, once: it needs no credential.
func (s viewAPI) renderDocs() ([]byte, error) {
	type section struct {
		Name    string
		Entries []entry
	}
	var sections []section
	for _, rt := range s.routes {
		if rt.group == "" {
			continue
		}
		if len(sections) == 0 || sections[len(sections)-1].Name != rt.group {
			sections = append(sections, section{Name: rt.group})
		}
		e := entry{
			Anchor: operationID(rt), Method: rt.method, Path: rt.path, Summary: rt.summary, Detail: rt.detail, Needs: string(rt.needs), Sample: rt.sample,
			Status: rt.status, Body: fields(rt.body, ""), Answer: fields(rt.answer, ""),
		}
		for _, p := range rt.params {
			e.Params = append(e.Params, field{p.name, p.kind, p.doc})
		}
		last := &sections[len(sections)-1]
		last.Entries = append(last.Entries, e)
	}
	var page bytes.Buffer
	err := docsPage.Execute(&page, map[string]any{
		"Version": s.cfg.Version, "Base": anyBase, "SignIn": s.cfg.Authenticate != nil, "Sections": sections, "Problem": fields(of[client.Problem](), ""),
	})
	return page.Bytes(), err
}

// base returns the address at which the page was requested, for examples that can be copied.
func base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func (s viewAPI) docsStyle(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Write(docsCSS)
	return nil
}

// fields lists the fields of a wire type, nested ones with dots.
func fields(t reflect.Type, prefix string) []field {
	if t == nil {
		return nil
	}
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		return fields(t.Elem(), prefix)
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		doc := f.Tag.Get("doc")
		if enum := f.Tag.Get("enum"); enum != "" {
			doc = strings.TrimSpace(strings.ReplaceAll(enum, ",", " · ") + ". " + doc)
		}
		kind, inner := typeName(f.Type)
		out = append(out, field{prefix + tag, kind, doc})
		if inner != nil {
			sep := "."
			if strings.HasPrefix(kind, "list") {
				sep = "[]."
			}
			out = append(out, fields(inner, prefix+tag+sep)...)
		}
	}
	return out
}

// typeName describes a type in words, with the struct inside it, if any.
func typeName(t reflect.Type) (name string, inner reflect.Type) {
	switch {
	case t == of[client.Pagination]() || t.Kind() == reflect.Struct && t.PkgPath() != "time":
		return "object", t
	case t.Kind() == reflect.Struct:
		return "time", nil
	case t.String() == "json.RawMessage":
		return "any JSON", nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		name, inner = typeName(t.Elem())
		return "list of " + name, inner
	case reflect.Map:
		return "object of strings", nil
	case reflect.Bool:
		return "true or false", nil
	case reflect.Int, reflect.Int64:
		return "whole number", nil
	case reflect.Float64:
		return "number", nil
	}
	return "string", nil
}
