package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The parts of CycloneDX 1.6 that are used.
type (
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Tools     tools     `json:"tools"`
		Component component `json:"component"`
	}
	tools struct {
		Components []component `json:"components"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref,omitempty"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		Scope      string     `json:"scope,omitempty"` // required, or excluded: used to build the product, but not part of it
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []license  `json:"licenses,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	license struct {
		Expression string `json:"expression"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

const product = "github.com/carillon-jobs/carillon"

// sbom lists the content of binaries: their Go modules and standard library, read from the binaries themselves, and
// the packages of the dashboard, read from npm's lock file ("-": there is none).
func sbom(out io.Writer, version string, at time.Time, lock string, binaries []string) error {
	root := component{Type: "application", Name: "carillon", Version: version, PURL: "pkg:golang/" + product + "@" + url.PathEscape(version), Licenses: []license{{"Apache-2.0"}}}
	root.Ref = root.PURL
	found := map[string]component{}
	for _, path := range binaries {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if info.Main.Path != product {
			return fmt.Errorf("%s is %s, not %s", path, info.Main.Path, product)
		}
		std := golang("stdlib", info.GoVersion, "")
		std.Version = strings.TrimPrefix(info.GoVersion, "go")
		std.PURL = "pkg:golang/stdlib@" + std.Version
		std.Ref = std.PURL
		found[std.Ref] = std
		for _, m := range info.Deps {
			c := module(m)
			found[c.Ref] = c
		}
	}
	if lock != "-" {
		all, err := packages(lock)
		if err != nil {
			return fmt.Errorf("%s: %w", lock, err)
		}
		maps.Copy(found, all)
	}
	b := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{Timestamp: at.Format(time.RFC3339), Tools: tools{[]component{{Type: "application", Name: "carillon scripts/pack"}}}, Component: root},
	}
	uses := dependency{Ref: root.Ref, On: []string{}}
	for _, ref := range slices.Sorted(maps.Keys(found)) {
		b.Components = append(b.Components, found[ref])
		if found[ref].Scope == "required" {
			uses.On = append(uses.On, ref)
		}
	}
	b.Dependencies = []dependency{uses}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	b.Serial = serial(text)
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(b)
}

// serial returns a UUID derived from the content.
func serial(content []byte) string {
	h := sha256.Sum256(content)
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	return golang(m.Path, m.Version, m.Sum)
}

func golang(path, version, sum string) component {
	purl := "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: "library", Ref: purl, Name: path, Version: version, Scope: "required", PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}} // of the module's files, not of an archive: not a hash in CycloneDX's sense
	}
	return c
}

// packages returns those of npm's lock file, by their references.
func packages(path string) (map[string]component, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lock struct {
		Version  int `json:"lockfileVersion"`
		Packages map[string]struct {
			Version, Integrity string
			License            any
			Dev, Link          bool
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, err
	}
	if lock.Version < 2 {
		return nil, fmt.Errorf("lockfileVersion %d: want 2 or 3", lock.Version)
	}
	out := map[string]component{}
	for _, at := range slices.SortedFunc(maps.Keys(lock.Packages), cmp.Compare) {
		p := lock.Packages[at]
		i := strings.LastIndex(at, "node_modules/")
		if i < 0 || p.Link || p.Version == "" { // the project itself
			continue
		}
		name := at[i+len("node_modules/"):]
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + url.PathEscape(p.Version)
		c := component{Type: "library", Ref: purl, Name: name, Version: p.Version, Scope: "required", PURL: purl}
		if p.Dev {
			c.Scope = "excluded"
		}
		if known, ok := out[purl]; ok && known.Scope == "required" {
			c.Scope = "required"
		}
		if text, ok := p.License.(string); ok && text != "" {
			c.Licenses = []license{{text}}
		}
		for _, sum := range strings.Fields(p.Integrity) {
			alg, b64, _ := strings.Cut(sum, "-")
			raw, err := base64.StdEncoding.DecodeString(b64)
			if known := map[string]string{"sha512": "SHA-512", "sha384": "SHA-384", "sha256": "SHA-256", "sha1": "SHA-1"}[alg]; err == nil && known != "" {
				c.Hashes = append(c.Hashes, hash{known, hex.EncodeToString(raw)})
			}
		}
		out[purl] = c
	}
	return out, nil
}
