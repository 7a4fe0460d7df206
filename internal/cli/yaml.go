package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/yamljson"
)

// yamlOf converts a JSON document to YAML, with numbers as they are written and control characters escaped.
func yamlOf(doc []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var b bytes.Buffer
	err := yamlValue(d, &b, "", "")
	return b.Bytes(), err
}

// yamlValue writes the next value. lead separates it from the text before it on the line.
func yamlValue(d *json.Decoder, b *bytes.Buffer, indent, lead string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		b.WriteString(lead + yamlScalar(t) + "\n")
		return nil
	}
	switch {
	case !d.More():
		b.WriteString(lead + map[json.Delim]string{'{': "{}", '[': "[]"}[open] + "\n")
	case lead != "":
		b.WriteString("\n" + indent)
	}
	for first := true; d.More(); first = false {
		if !first {
			b.WriteString(indent)
		}
		lead := ""
		if open == '[' {
			b.WriteString("- ")
		} else {
			name, err := d.Token()
			if err != nil {
				return err
			}
			b.WriteString(yamlScalar(name) + ":")
			lead = " "
		}
		if err := yamlValue(d, b, indent+"  ", lead); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

var (
	bareText = regexp.MustCompile(`^[A-Za-z/]([A-Za-z0-9_./-]|:[A-Za-z0-9_/]| [A-Za-z0-9_./])*$`)
	noText   = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}
)

// yamlScalar writes a text, quoted if it could be mistaken for something else, or a number, true, false or null.
func yamlScalar(t json.Token) string {
	s, ok := t.(string)
	switch {
	case t == nil:
		return "null"
	case !ok:
		return fmt.Sprint(t)
	case bareText.MatchString(s) && !slices.Contains(noText, strings.ToLower(s)):
		return s
	}
	var b strings.Builder
	_ = encodeJSON(&b, s, "") // a text always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// jsonOf converts YAML, of which JSON is a subset, to JSON: one document, with its numbers as they are written.
func jsonOf(text []byte) ([]byte, error) {
	if json.Valid(text) {
		return text, nil
	}
	docs, err := yamljson.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case len(docs) != 1:
		return nil, errors.New("want one document")
	}
	return docs[0].JSON, nil
}
