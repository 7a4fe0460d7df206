package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestYAMLIsTheSameDocument(t *testing.T) {
	for _, doc := range []string{
		`{}`, `[]`, `null`, `"x"`, `{"a":{},"b":[],"c":[[1,[2]],{"d":[{"e":1,"f":{"g":2}},3]}]}`,
		`{"n":12345678901234567890123,"f":1.0,"e":1e400,"m":-0.10}`,
		`{"t":["","true","No","null","~","1","0x1","1e3","- a","a: b","a #b","a:","? x","*x","&x","[x","{x","2026-01-02","12:30","a  b"," a","a ","http://h:1/p?q=1"]}`,
		`{"k: x":1,"":2,"y":3,"1":4,"- ":5}`,
		`{"s":"line\nbreak\ttab \u001b[31mred \u009b2J \u202eback \u007f \\ \" ü 😀"}`,
	} {
		y, err := yamlOf([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(strings.ReplaceAll(string(y), "\n", ""), control) {
			t.Errorf("control characters in %q", y)
		}
		if doc == "null" {
			continue // which is no document
		}
		got, err := jsonOf(y)
		if err != nil {
			t.Errorf("%s: %v\n%s", doc, err, y)
			continue
		}
		var want, is bytes.Buffer
		for to, of := range map[*bytes.Buffer]string{&want: doc, &is: string(got)} {
			d := json.NewDecoder(strings.NewReader(of))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			if err := encodeJSON(to, v, ""); err != nil {
				t.Fatal(err)
			}
		}
		if want.String() != is.String() {
			t.Errorf("%s became %s by\n%s", want.String(), is.String(), y)
		}
	}
}

func TestABodyKeepsItsNumbers(t *testing.T) {
	const want = `"payload":{"n":12345678901234567890123}`
	for _, body := range []string{`{"execution":{"payload":{"n":12345678901234567890123}}}`, "execution:\n  payload: {n: 12345678901234567890123}"} {
		s := &session{}
		f := addJobFlags(s, &cobra.Command{})
		if err := f.set.Set("body", body); err != nil {
			t.Fatal(err)
		}
		got, err := f.request(nil)
		data, _ := json.Marshal(got)
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %s, %v", body, data, err)
		}
	}
}
