package declare

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/strictjson"
	"github.com/carillon-jobs/carillon/internal/yamljson"
)

// Problem is one mistake in a file.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Want  string `json:"want"`
}

// Problems lists all mistakes in files.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		where := x.File
		if x.Line > 0 {
			where += fmt.Sprintf(":%d", x.Line)
		}
		what := ""
		if x.Field != "" {
			what = x.Field
			if x.Value != "" {
				what += " is " + x.Value
			}
			what += ", "
		} else if x.Value != "" {
			what = "got " + x.Value + ", "
		}
		lines[i] = where + ": " + what + "want " + x.Want
	}
	return strings.Join(lines, "\n")
}

// Job is a job as written in a file.
type Job struct {
	client.JobRequest
	After

	place place
}

// Calendar is a calendar as written in a file.
type Calendar struct {
	Name string `json:"name"`
	client.CalendarRequest

	place place
}

// place is a position in a file.
type place struct {
	file string
	doc  *yamljson.Document
	path string
}

// problem describes what is wrong with a field, or with the whole.
func (p place) problem(field, value, want string) Problem {
	path := p.path
	if field != "" {
		path += "." + field
	}
	out := Problem{File: p.file, Field: path, Value: value, Want: want}
	if p.doc != nil {
		out.Line = p.doc.LineOf(path)
	}
	return out
}

// Declared holds the content of the files.
type Declared struct {
	Jobs      []Job
	Calendars []Calendar
	Rules     []Rule
	Workflows []Workflow
}

// keys holds the keys of jobs and workflows.
func (d Declared) keys() map[string]bool {
	out := map[string]bool{}
	for _, j := range d.Jobs {
		out[*j.Key] = true
	}
	for _, w := range d.Workflows {
		out[*w.Key] = true
	}
	return out
}

// contents is the format of a document.
type contents struct {
	Jobs      []Job      `json:"jobs,omitempty"`
	Calendars []Calendar `json:"calendars,omitempty"`
	Rules     []Rule     `json:"notification_rules,omitempty"`
	Workflows []Workflow `json:"workflows,omitempty"`
}

// maxFile limits the size of a file.
const maxFile = 64 << 20

// Read reads files, folders of them (*.yaml, *.yml and *.json, in order of their names, not those below), and standard input as "-".
func Read(stdin io.Reader, paths ...string) (Declared, error) {
	var out Declared
	var wrong Problems
	for _, path := range paths {
		names, err := filesOf(path)
		if err != nil {
			return out, err
		}
		for _, name := range names {
			data, err := readFile(stdin, name)
			if err != nil {
				return out, err
			}
			if name == "-" {
				name = "standard input"
			}
			wrong = append(wrong, out.add(name, data)...)
		}
	}
	wrong = append(wrong, out.twice()...)
	if len(wrong) > 0 {
		return out, wrong
	}
	return out, nil
}

func filesOf(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("the folder has no *.yaml, *.yml or *.json")}
	}
	return names, nil
}

func readFile(stdin io.Reader, name string) ([]byte, error) {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return data, err
}

// add adds what a file declares, and returns its mistakes.
func (d *Declared) add(file string, data []byte) (wrong Problems) {
	docs, err := yamljson.Parse(data)
	var syntax *yamljson.Error
	if errors.As(err, &syntax) {
		return Problems{{File: file, Line: syntax.Line, Want: syntax.Want}}
	}
	for i := range docs {
		doc := &docs[i]
		var c contents
		var bad *strictjson.Error
		err := strictjson.Unmarshal(doc.JSON, &c)
		switch {
		case errors.As(err, &bad):
			for _, p := range bad.Problems {
				wrong = append(wrong, Problem{File: file, Line: doc.Line(p.Offset), Field: p.Field, Value: p.Value, Want: p.Want})
			}
			continue
		case err != nil:
			wrong = append(wrong, Problem{File: file, Line: doc.LineOf(""), Want: err.Error()})
			continue
		}
		for n, j := range c.Jobs {
			j.place = place{file, doc, fmt.Sprintf("jobs[%d]", n)}
			if j.Key == nil || *j.Key == "" {
				wrong = append(wrong, j.place.problem("key", "", "a key: jobs are told apart by it"))
			}
			wrong = append(wrong, j.check(j.place)...)
			if len(j.DependsOn) > 0 && j.Schedule == nil {
				j.Schedule = &client.Schedule{Type: "MANUAL"} // it runs after the others, not when it is created
			}
			d.Jobs = append(d.Jobs, j)
		}
		for n, x := range c.Workflows {
			x.place = place{file, doc, fmt.Sprintf("workflows[%d]", n)}
			if x.Key == nil || *x.Key == "" {
				wrong = append(wrong, x.place.problem("key", "", "a key: workflows are told apart by it"))
			}
			wrong = append(wrong, x.check(x.place)...)
			d.Workflows = append(d.Workflows, x)
		}
		for n, x := range c.Calendars {
			x.place = place{file, doc, fmt.Sprintf("calendars[%d]", n)}
			if x.Name == "" {
				wrong = append(wrong, x.place.problem("name", "", "a name"))
			}
			d.Calendars = append(d.Calendars, x)
		}
		for n, x := range c.Rules {
			x.place = place{file, doc, fmt.Sprintf("notification_rules[%d]", n)}
			if x.Name == "" {
				wrong = append(wrong, x.place.problem("name", "", "a name"))
			}
			d.Rules = append(d.Rules, x)
		}
	}
	return wrong
}

// twice returns the keys and names that are declared more than once.
func (d *Declared) twice() (wrong Problems) {
	at := map[string]place{}
	see := func(kind, name, field string, p place) {
		if first, ok := at[kind+name]; ok && name != "" {
			wrong = append(wrong, p.problem(field, fmt.Sprintf("%q", name), fmt.Sprintf("each only once; it is in %s, line %d, too", first.file, first.doc.LineOf(first.path))))
		}
		at[kind+name] = p
	}
	for _, j := range d.Jobs {
		if j.Key != nil {
			see("job ", *j.Key, "key", j.place)
		}
	}
	for _, w := range d.Workflows {
		if w.Key != nil {
			see("job ", *w.Key, "key", w.place) // a workflow is a job, too
		}
	}
	for _, c := range d.Calendars {
		see("calendar ", c.Name, "name", c.place)
	}
	for _, r := range d.Rules {
		see("rule ", r.Name, "name", r.place)
	}
	return wrong
}
