package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArchivesDependOnTheirContentOnly(t *testing.T) {
	dir := t.TempDir()
	program := write(t, filepath.Join(dir, "program"), "run", 0o700)
	text := write(t, filepath.Join(dir, "text"), "read", 0o600)
	for _, kind := range []string{".tar.gz", ".zip"} {
		a, b := filepath.Join(dir, "a"+kind), filepath.Join(dir, "b"+kind)
		for to, files := range map[string][]string{a: {"x/program=" + program, "LICENSE=" + text}, b: {"LICENSE=" + text, "x/program=" + program}} {
			if err := run(append([]string{"archive", to, "1700000000"}, files...), nil); err != nil {
				t.Fatal(err)
			}
		}
		one, _ := os.ReadFile(a)
		two, _ := os.ReadFile(b)
		if len(one) == 0 || !bytes.Equal(one, two) {
			t.Errorf("%s: the same files in another order give another archive", kind)
		}
		if got := listing(t, a); !slices.Equal(got, []string{"LICENSE -rw-r--r-- 1700000000", "x/program -rwxr-xr-x 1700000000"}) {
			t.Errorf("%s: got %q", kind, got)
		}
	}
}

func listing(t *testing.T, path string) (out []string) {
	t.Helper()
	say := func(i os.FileInfo, name string) {
		out = append(out, fmt.Sprintf("%s %v %d", name, i.Mode(), i.ModTime().Unix()))
	}
	if strings.HasSuffix(path, ".zip") {
		r, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, f := range r.File {
			say(f.FileInfo(), f.Name)
		}
		return out
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(gz); ; {
		h, err := r.Next()
		if err != nil {
			return out
		}
		say(h.FileInfo(), h.Name)
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "f"), "", 0o600)
	for _, args := range [][]string{
		{"a.tar.gz", "1", "../x=" + file}, {"a.tar.gz", "1", "/x=" + file}, {"a.tar.gz", "1", "x=" + dir}, {"a.tar.gz", "1", "x"},
		{"a.tar.gz", "1", "x=" + file, "x=" + file}, {"a.rar", "1", "x=" + file}, {"a.zip", "now", "x=" + file}, {"a.zip", "1", "x=" + filepath.Join(dir, "none")},
	} {
		args[0] = filepath.Join(dir, args[0])
		if err := run(append([]string{"archive"}, args...), nil); err == nil {
			t.Errorf("taken: %q", args)
		}
	}
}

func TestSums(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b"), "", 0o600)
	write(t, filepath.Join(dir, "a"), "x", 0o600)
	write(t, filepath.Join(dir, "SHA256SUMS"), "old", 0o600)
	var out strings.Builder
	if err := run([]string{"sums", dir}, &out); err != nil {
		t.Fatal(err)
	}
	want := "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  a\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
	if out.String() != want {
		t.Errorf("got %s", &out)
	}
}

const lockFile = `{"lockfileVersion": 3, "packages": {
	"": {"name": "carillon-dashboard", "version": "1.0.0"},
	"node_modules/react": {"version": "19.0.0", "integrity": "sha512-AAAA", "license": "MIT"},
	"node_modules/@x/y": {"version": "1.0.0-rc.1+a", "dev": true, "license": "ISC"},
	"node_modules/vite/node_modules/react": {"version": "19.0.0", "dev": true, "license": "MIT"}}}`

// The test's own binary is of this module, so that it can be listed without building another.
func TestWhatIsInside(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "carillon")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "github.com/carillon-jobs/carillon/scripts/pack").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lock := write(t, filepath.Join(t.TempDir(), "package-lock.json"), lockFile, 0o600)
	var one, two bytes.Buffer
	for _, to := range []*bytes.Buffer{&one, &two} {
		if err := run([]string{"sbom", "v1.2.3", "1700000000", lock, binary}, to); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same content gives another list")
	}
	var b bom
	if err := json.Unmarshal(one.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Spec != "1.6" || b.Metadata.Timestamp != "2023-11-14T22:13:20Z" || b.Metadata.Component.Version != "v1.2.3" || !strings.HasPrefix(b.Serial, "urn:uuid:") || len(b.Serial) != 45 {
		t.Errorf("got %+v", b)
	}
	scope := map[string]string{}
	for _, c := range b.Components {
		if c.Ref != c.PURL || c.Version == "" || scope[c.Ref] != "" {
			t.Errorf("got %+v", c)
		}
		scope[c.Ref] = c.Scope
	}
	if scope["pkg:npm/react@19.0.0"] != "required" || scope["pkg:npm/%40x/y@1.0.0-rc.1+a"] != "excluded" {
		t.Errorf("got %v", scope)
	}
	if i := slices.IndexFunc(b.Components, func(c component) bool { return c.Name == "stdlib" }); i < 0 || strings.HasPrefix(b.Components[i].Version, "go") {
		t.Errorf("no standard library, or with a strange version: %v", scope)
	}
	if got := b.Dependencies[0].On; slices.Contains(got, "pkg:npm/%40x/y@1.0.0-rc.1+a") || !slices.Contains(got, "pkg:npm/react@19.0.0") {
		t.Errorf("it depends on %q", got)
	}
}
