package layout

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/workflow"
)

var update = flag.Bool("update", false, "write the golden files again")

const nightly = `{"nodes":[
 {"key":"list","execution":{"target":"worker","kind":"list"}},
 {"key":"load","depends_on":["list"],"map":"nodes.list.result.files","execution":{"target":"worker","kind":"load"}},
 {"key":"ok","depends_on":["load"],"if":"run.input.publish","wait":{"approval":{"roles":["operator"]}}},
 {"key":"sum","depends_on":["load","ok"],"trigger":"none_failed","job_id":"key:summary"},
 {"key":"clean","finally":true,"execution":{"target":"http","callback_url":"https://example.com/clean"}}]}`

func nightlyLayout(t *testing.T, d Direction) *Layout {
	def, err := workflow.Decode([]byte(nightly))
	if err != nil {
		t.Fatal(err)
	}
	l, err := Compute(Of(def), Pixels(d))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSVGGolden(t *testing.T) {
	t.Parallel()
	for name, got := range map[string][]byte{
		"definition.svg": SVG(nightlyLayout(t, Right), "Nightly ETL", nil),
		"run.svg": SVG(nightlyLayout(t, Down), "Nightly ETL", map[string]Shown{
			"list": {Status: "SUCCEEDED"}, "load": {"RUNNING", "38 of 40 done"}, "ok": {Status: "WAITING"}, "sum": {Status: "WAITING"}, "clean": {Status: "WAITING"},
		}),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs; look at it, then run go test ./internal/core/layout -update", name)
		}
	}
}

// Whatever keys, texts and statuses hold, the picture is XML with no element but its own.
func TestSVGIsSafe(t *testing.T) {
	t.Parallel()
	evil := `</text><script>alert(1)</script>"'&` + "\x00\x1b\ufffe\n"
	l, err := Compute([]Node{{Key: evil, Text: evil, Kind: evil, Marks: []string{`"><a>`}}}, Pixels(Right))
	if err != nil {
		t.Fatal(err)
	}
	picture := SVG(l, evil, map[string]Shown{evil: {evil, evil}})
	known := map[string]bool{"svg": true, "title": true, "style": true, "defs": true, "marker": true, "path": true, "rect": true, "text": true, "g": true}
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
		if e, ok := token.(xml.StartElement); ok && !known[e.Name.Local] {
			t.Errorf("element %s", e.Name.Local)
		}
	}
}

func TestNodesAreDescribed(t *testing.T) {
	t.Parallel()
	def, err := workflow.Decode([]byte(`{"nodes":[
	 {"key":"a","execution":{"target":"http","callback_url":"https://example.com"}},
	 {"key":"b","wait":{"timer":"2h"}},
	 {"key":"c","wait":{"event":"order.paid"},"condition":"always","depends_on":["a"]},
	 {"key":"d","wait":{"approval":{"min":2}}},
	 {"key":"e","job_id":"key:x","trigger":"success","depends_on":["a"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range Of(def) {
		got = append(got, n.Kind+"|"+n.Text+"|"+strings.Join(n.Marks, ","))
	}
	want := "http|http|;timer|timer 2h|;event|event order.paid|all_done;approval|2 approvals|;job|job key:x|"
	if s := strings.Join(got, ";"); s != want {
		t.Errorf("%s, want %s", s, want)
	}
}
