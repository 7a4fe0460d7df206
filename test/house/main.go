// Command house measures the structure of a checkout: lines by package, methods by type, and how often the files of a package
// depend on each other in both directions. It prints Markdown.
//
//	go run ./test/house                 this checkout
//	go run ./test/house -before ../old  beside an older one
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	before := flag.String("before", "", "another checkout to compare with")
	flag.Parse()
	now, err := measure(".")
	if err != nil {
		log.Fatal(err)
	}
	was := house{}
	if *before != "" {
		if was, err = measure(*before); err != nil {
			log.Fatal(err)
		}
	}
	print(was, now)
}

// house holds the measures of a checkout.
type house struct {
	packages map[string]*room // by folder
}

// room holds the measures of a package.
type room struct {
	lines, files int
	methods      map[string]int // by type
	arrows, back int            // between files, and those against the order that has the fewest
}

// measure reads the Go source of a checkout, without tests and generated files.
func measure(root string) (house, error) {
	h := house{map[string]*room{}}
	sources := map[string]map[string]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && path != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.HasPrefix(string(text), "// Code generated") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		r := h.packages[dir]
		if r == nil {
			r = &room{methods: map[string]int{}}
			h.packages[dir], sources[dir] = r, map[string]*ast.File{}
		}
		r.files++
		r.lines += strings.Count(string(text), "\n")
		sources[dir][name] = f
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				r.methods[receiver(fn)]++
			}
		}
		return nil
	})
	for dir, files := range sources {
		h.packages[dir].arrows, h.packages[dir].back = arrows(files)
	}
	return h, err
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// arrows counts the references between files, and how many of them run backwards. A name that is defined more than
// once, such as a method of two types, counts for nothing.
func arrows(files map[string]*ast.File) (all, back int) {
	home := map[string]string{}
	define := func(name, file string) {
		if at, ok := home[name]; ok && at != file {
			file = ""
		}
		home[name] = file
	}
	for name, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				define(d.Name.Name, name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						define(s.Name.Name, name)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							define(n.Name, name)
						}
					}
				}
			}
		}
	}
	to := map[string]map[string]bool{}
	for name, f := range files {
		to[name] = map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if at := home[id.Name]; at != "" && at != name {
					to[name][at] = true
				}
			}
			return true
		})
	}
	order := arrange(to)
	for from, targets := range to {
		for target := range targets {
			all++
			if order[from] > order[target] {
				back++
			}
		}
	}
	return all, back
}

// arrange orders files with few arrows against the order: repeatedly the file with the most arrows out, and the
// fewest in, of those that are left (Eades, Lin and Smyth).
func arrange(to map[string]map[string]bool) map[string]int {
	left := slices.Sorted(maps.Keys(to))
	order := map[string]int{}
	for len(left) > 0 {
		weight := map[string]int{}
		for _, from := range left {
			for _, target := range left {
				if to[from][target] {
					weight[from]++
					weight[target]--
				}
			}
		}
		best := slices.MaxFunc(left, func(a, b string) int { return cmp.Compare(weight[a], weight[b]) })
		order[best] = len(order)
		left = slices.DeleteFunc(left, func(f string) bool { return f == best })
	}
	return order
}

// large limits what is listed: packages by their lines, types by their methods.
const (
	largePackage = 1500
	largeType    = 40
)

func print(was, now house) {
	compared := len(was.packages) > 0
	head := func(columns ...string) {
		fmt.Println("| " + strings.Join(columns, " | ") + " |")
		fmt.Println("|" + strings.Repeat(" --- |", len(columns)))
	}
	total := func(h house) (n int) {
		for _, r := range h.packages {
			n += r.lines
		}
		return n
	}
	if compared {
		fmt.Printf("Lines of Go without tests and generated files: %d before, %d now.\n\n", total(was), total(now))
	} else {
		fmt.Printf("Lines of Go without tests and generated files: %d.\n\n", total(now))
	}
	head("package", "lines before", "now", "files before", "now", "arrows that run back before", "now")
	for _, dir := range names(was, now) {
		a, b := was.room(dir), now.room(dir)
		if max(a.lines, b.lines) < largePackage {
			continue
		}
		fmt.Printf("| `%s` | %d | %d | %d | %d | %s | %s |\n", dir, a.lines, b.lines, a.files, b.files, a.share(), b.share())
	}
	fmt.Println()
	head("type", "methods before", "now")
	for _, dir := range names(was, now) {
		a, b := was.room(dir), now.room(dir)
		types := slices.Sorted(maps.Keys(a.methods))
		for t := range b.methods {
			if _, ok := a.methods[t]; !ok {
				types = append(types, t)
			}
		}
		for _, t := range types {
			if max(a.methods[t], b.methods[t]) > largeType {
				fmt.Printf("| `%s.%s` | %d | %d |\n", dir, t, a.methods[t], b.methods[t])
			}
		}
	}
}

func (h house) room(dir string) *room {
	if r := h.packages[dir]; r != nil {
		return r
	}
	return &room{}
}

func (r *room) share() string {
	if r.arrows == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", r.back, r.arrows)
}

// names lists the packages of both, the largest first.
func names(was, now house) []string {
	all := map[string]bool{}
	for dir := range was.packages {
		all[dir] = true
	}
	for dir := range now.packages {
		all[dir] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(max(was.room(b).lines, now.room(b).lines), max(was.room(a).lines, now.room(a).lines)), strings.Compare(a, b))
	})
}
