package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	got, err := parse(" claim.beforeCommit=kill@3; worker.beforeHeartbeat=stop(1500ms)@2-4;api.beforeTx=sleep(2s);api.beforeCommit=commitThenError;reap.afterSelectBeforeUpdate=error; ")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]rule{
		"claim.beforeCommit":           {kill, 0, 3, 3},
		"worker.beforeHeartbeat":       {stop, 1500 * time.Millisecond, 2, 4},
		"api.beforeTx":                 {sleep, 2 * time.Second, 1, forever},
		"api.beforeCommit":             {commitThenError, 0, 1, forever},
		"reap.afterSelectBeforeUpdate": {fail, 0, 1, forever},
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, r := range want {
		if got[name] != r {
			t.Errorf("%s: got %+v, want %+v", name, got[name], r)
		}
	}
	for spec, say := range map[string]string{
		"claim":                               "want POINT=ACTION",
		"claim.beforeComit=kill":              "no point \"claim.beforeComit\"; want one of migrate.midStep",
		"claim.beforeCommit=explode":          "\"explode\" is no action; want kill",
		"claim.beforeCommit=kill(2s)":         "no action",
		"claim.beforeCommit=sleep":            "no action",
		"claim.beforeCommit=sleep(2)":         "is not a time; want sleep(2s)",
		"claim.beforeCommit=sleep(2s":         "is not a time",
		"claim.beforeCommit=stop(-1s)":        "is not a time",
		"claim.beforeCommit=kill@":            "want @3 or @2-5",
		"claim.beforeCommit=kill@0":           "want @3",
		"claim.beforeCommit=kill@5-2":         "want @3",
		"claim.beforeCommit=kill@2-":          "want @3",
		"api.beforeTx=commitThenError":        "before a commit only: api.beforeCommit",
		"api.beforeTx=kill;api.beforeTx=kill": "want each once",
	} {
		if _, err := parse(spec); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: got %v, want %q in it", spec, err, say)
		}
	}
}

// Every point is hit somewhere, and nothing else is.
func TestPointsAndPlacesAgree(t *testing.T) {
	placed := map[string]bool{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "failpoint" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, name := range names(call) {
					if !slices.Contains(Points, name) {
						t.Errorf("%s: %q is not in Points", file, name)
					}
					placed[name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Points {
		if !placed[name] {
			t.Errorf("nothing hits %q", name)
		}
	}
}

// names are the points that a call hits: failpoint.Hit("…"), or a function named hitting… that is given the name.
func names(call *ast.CallExpr) (out []string) {
	hits := false
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		hits = ok && x.Name == "failpoint" && f.Sel.Name == "Hit"
	case *ast.Ident:
		hits = strings.HasPrefix(f.Name, "hitting")
	}
	if !hits {
		return nil
	}
	for _, a := range call.Args {
		if lit, ok := a.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, _ := strconv.Unquote(lit.Value)
			out = append(out, name)
		}
	}
	return out
}
