package config

import (
	"fmt"
	"slices"
	"strings"
)

// Reference returns the documentation of every key, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Made by "make docs-config" from the table of keys in internal/config; changes here are lost. -->

This page lists every setting. A setting comes from the first of these that has it: a flag, the environment, the file that ` + "`--config FILE`" + ` (or ` + "`CARILLON_CONFIG`" + `) names,
the default. The file is TOML: the part of a key before its last dot is the table. ` + "`carillon config check`" + ` lists all mistakes;
` + "`carillon config show`" + ` shows each value and where it comes from. ` + "`dev`" + `, ` + "`serve`" + ` and ` + "`worker`" + ` accept every flag here; their
` + "`--help`" + ` lists the most common ones.

A duration is a number in the unit of the key's name, or text such as "1m30s". Lists are TOML lists in the file, and separated by
commas elsewhere. An empty variable counts as not set. Secrets have no flags, because other users of a machine can read the arguments of a process.
You can put a secret into a file of one line instead, and name the file in the variable with ` + "`_FILE`" + ` at the end: ` + "`CARILLON_DATABASE_FILE=/run/secrets/database`" + `.
`)
	for _, name := range tables() {
		title := "[" + name + "]"
		if name == "" {
			title = "Top level"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| key | default | meaning and valid values | flag | environment |\n| --- | --- | --- | --- | --- |\n", title)
		for _, k := range Keys {
			table, last := parted(k.Name)
			if table != name {
				continue
			}
			doc := strings.ToUpper(k.Doc[:1]) + k.Doc[1:] + ". " + strings.ToUpper(k.Want[:1]) + k.Want[1:] + "."
			if slices.Contains(Idle, k.Name) {
				doc += " Validated but not used yet."
			}
			if k.EnvOnly {
				doc += " Environment only."
			}
			flag := "–"
			if f := k.Flag(); f != "" {
				flag = "`--" + f + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` |\n", last, k.literal(k.Default()), strings.ReplaceAll(doc, "|", "\\|"), flag, k.Variable())
		}
	}
	b.WriteString("\n## A file\n\nThese are the defaults. They differ in three places: `serve` listens on `:8080`, a worker on a free loopback port, and `dev` allows commands:\n\n```toml\n")
	b.WriteString(Example())
	b.WriteString("```\n")
	return b.String()
}

// Example returns a file of the defaults; keys without one are left out.
func Example() string {
	c := Default()
	var all []Setting
	for _, k := range Keys {
		all = append(all, Setting{Key: k, Value: k.display(k.get(&c))})
	}
	return TOML(all)
}

// TOML formats settings as a file; unset and secret ones are left out.
func TOML(all []Setting) string {
	var b strings.Builder
	for _, name := range tables() {
		begun := name == ""
		for _, s := range all {
			table, last := parted(s.Name)
			if table != name || s.Value == "" || s.Value == hidden {
				continue
			}
			if !begun {
				if b.Len() > 0 {
					b.WriteByte('\n')
				}
				fmt.Fprintf(&b, "[%s]\n", name)
				begun = true
			}
			fmt.Fprintf(&b, "%s = %s\n", last, s.toml(s.Value))
		}
	}
	return b.String()
}

// tables returns the tables of a file in the order of the keys; "" comes first.
func tables() (out []string) {
	for _, k := range Keys {
		if t, _ := parted(k.Name); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// parted splits a key into its table and the rest.
func parted(name string) (table, last string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// literal formats a value for a table of the reference.
func (k Key) literal(v string) string {
	if v == "" {
		return "none"
	}
	return "`" + k.toml(v) + "`"
}

// toml formats a value as in a file.
func (k Key) toml(v string) string {
	switch k.Kind {
	case Number, Truth:
		return v
	case Span:
		if strings.Trim(v, "0123456789") == "" {
			return v
		}
	case List:
		var parts []string
		for _, w := range words(v) {
			parts = append(parts, fmt.Sprintf("%q", w))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("%q", v)
}
