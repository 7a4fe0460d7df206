package api

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// object is a JSON object in the making.
type object = map[string]any

// document returns the OpenAPI 3.1 document of the routes.
func (s viewAPI) document() object {
	schemas := &schemas{known: object{}}
	paths := object{}
	for _, rt := range s.routes {
		if rt.group == "" {
			continue
		}
		path, _ := paths[rt.path].(object)
		if path == nil {
			path = object{}
			paths[rt.path] = path
		}
		path[strings.ToLower(rt.method)] = s.operation(rt, schemas)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Carillon", "version": s.cfg.Version, "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "A distributed job scheduler and durable job queue.",
		},
		"paths": paths,
		"components": object{
			"schemas": schemas.known,
			"securitySchemes": object{
				"key":    object{"type": "http", "scheme": "bearer", "description": "An API key or a token. Not needed where the server runs without sign-in."},
				"cookie": object{"type": "apiKey", "in": "cookie", "name": secureCookie, "description": "Of a browser, from POST /api/v1/sign-in."},
			},
		},
	}
}

func (s viewAPI) operation(rt route, schemas *schemas) object {
	op := object{"summary": rt.summary, "tags": []string{rt.group}, "operationId": operationID(rt)}
	if rt.detail != "" {
		op["description"] = rt.detail
	}
	if rt.needs.Keyed() {
		op["security"] = []object{{"key": []string{}}, {"cookie": []string{}}}
	}
	var params []object
	for _, name := range pathParams(rt.path) {
		params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}, "example": examplesOf.Paths[rt.path]})
	}
	for _, p := range rt.params {
		params = append(params, object{"name": p.name, "in": "query", "description": p.doc, "schema": object{"type": p.kind}})
	}
	if rt.method == "POST" {
		params = append(params, object{
			"name": "X-Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": 255},
			"description": "Makes the request safe to repeat for 24 hours; Idempotency-Key works too.",
		})
	}
	if params != nil {
		op["parameters"] = params
	}
	if rt.body != nil {
		op["requestBody"] = object{
			"required": rt.method != "POST" || len(pathParams(rt.path)) == 0,
			"content":  object{"application/json": object{"schema": schemas.of(rt.body), "example": json.RawMessage(rt.sample)}},
		}
	}
	binary := object{"application/octet-stream": object{}}
	if rt.bytes && rt.method != "GET" {
		op["requestBody"] = object{"required": true, "content": binary}
	}
	content := binary
	if rt.answer != nil {
		kind := "application/json"
		if rt.stream {
			kind = "text/event-stream"
		}
		content = object{kind: object{"schema": schemas.of(rt.answer)}}
	}
	if example, ok := examplesOf.Answers[operationID(rt)]; ok {
		for kind, media := range content {
			content = object{kind: with(media.(object), "example", example)}
		}
	}
	answers := object{
		code(rt.status): object{"description": http.StatusText(rt.status), "content": content},
		"default":       object{"description": "A problem", "content": object{"application/problem+json": object{"schema": schemas.of(of[client.Problem]())}}},
	}
	if rt.also != 0 {
		if rt.other != nil {
			content = object{"application/json": object{"schema": schemas.of(rt.other)}}
		}
		answers[code(rt.also)] = object{"description": http.StatusText(rt.also), "content": content}
	}
	op["responses"] = answers
	return op
}

// examplesOf holds recorded responses of a server; a test requests each again, and rewrites them with -update.
var examplesOf = func() (out struct {
	Paths   map[string]string          `json:"paths"`   // what stands for {…} in a path
	Answers map[string]json.RawMessage `json:"answers"` // by operation
}) {
	if err := json.Unmarshal(examplesFile, &out); err != nil {
		panic("api: the examples cannot be read: " + err.Error())
	}
	return out
}()

//go:embed examples.json
var examplesFile []byte

// pathParams returns the names in braces of a path.
func pathParams(path string) []string {
	var names []string
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok && name != "$}" {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

func code(status int) string { b, _ := json.Marshal(status); return string(b) }

// operationID returns a name for generated clients, such as postJobsTrigger.
func operationID(rt route) string {
	id := strings.ToLower(rt.method)
	for part := range strings.FieldsFuncSeq(strings.TrimPrefix(rt.path, "/api/v1"), func(c rune) bool { return c == '/' || c == ':' || c == '-' }) {
		switch part {
		case "{id}":
			part = "byID"
		case "{revision}":
			part = "byNumber"
		case "{file}":
			part = "byFile"
		case "{queue}", "{name}":
			part = "byName"
		}
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

// schemas collects the JSON schemas of the wire types, by name.
type schemas struct{ known object }

func (s *schemas) of(t reflect.Type) object {
	switch t {
	case of[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case of[json.RawMessage]():
		return object{"description": "Any JSON."}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.named(t)
	default:
		panic("api: no schema for " + t.String())
	}
}

func (s *schemas) named(t reflect.Type) object {
	if t.Name() == "" {
		return object{"type": "object"}
	}
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	ref := object{"$ref": "#/components/schemas/" + name}
	if s.known[name] != nil {
		return ref
	}
	s.known[name] = object{} // so that recursion ends for a type that contains itself
	properties := object{}
	required := []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" || f.Anonymous { // whose own fields are visible here, too
			continue
		}
		p := s.of(f.Type)
		if f.Tag.Get("null") == "true" {
			p = nullable(p)
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			p = with(p, "description", doc)
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			p = with(p, "enum", strings.Split(enum, ","))
		}
		properties[tag] = p
		if !strings.Contains(options, "omitempty") {
			required = append(required, tag)
		}
	}
	slices.Sort(required)
	s.known[name] = object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	return ref
}

func nullable(o object) object {
	if t, ok := o["type"].(string); ok {
		return with(o, "type", []string{t, "null"})
	}
	return object{"anyOf": []object{o, {"type": "null"}}}
}

func with(o object, key string, value any) object {
	out := object{key: value}
	for k, v := range o {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func (s viewAPI) openAPI(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
	return replyRaw(w, 200, s.documented())
}
