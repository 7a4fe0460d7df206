package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is a package as go list tells of it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string
	Module     *struct{ Main bool }
}

// checked are the packages that were checked, by their paths.
type checked map[string]*types.Package

// Import finds a package as a source file of one names it.
func (c checked) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := c[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("it was not checked before")
}

// mapped finds packages under the names that one of them uses, such as those that Go brings along.
type mapped struct {
	checked
	names map[string]string
}

func (m mapped) Import(path string) (*types.Package, error) {
	if as, ok := m.names[path]; ok {
		path = as
	}
	return m.checked.Import(path)
}

// The program is released for systems on which no test runs. Building it for them takes minutes; its types are checked in seconds: of our own
// packages everything, of others what they declare.
func TestItsTypesAreRightOnOtherSystems(t *testing.T) {
	for _, target := range []string{"windows/amd64", "darwin/arm64"} {
		system, arch, _ := strings.Cut(target, "/")
		c := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./cmd/carillon")
		c.Dir, c.Env = "..", append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		var said bytes.Buffer
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", target, err, said.String())
		}
		all, ours := checked{}, 0
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listed
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if p.ImportPath == "unsafe" {
				continue
			}
			own := p.Module != nil && p.Module.Main
			if own {
				ours++
			}
			files := token.NewFileSet()
			var parsed []*ast.File
			for _, name := range p.GoFiles {
				f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				parsed = append(parsed, f)
			}
			conf := types.Config{
				Importer: mapped{all, p.ImportMap}, Sizes: types.SizesFor("gc", arch), IgnoreFuncBodies: !own,
				Error: func(err error) {
					if own {
						t.Errorf("%s: %v", target, err)
					}
				},
			}
			got, _ := conf.Check(p.ImportPath, files, parsed, nil) // its errors were told
			all[p.ImportPath] = got
		}
		if ours < 40 || all["github.com/carillon-jobs/carillon/cmd/carillon"] == nil {
			t.Errorf("%s: only %d packages of ours were checked", target, ours)
		}
	}
}
