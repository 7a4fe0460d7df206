package config

import (
	"net/url"
	"strings"
)

// Shown is what every setting is, as anybody may read it: secrets are not shown, and no address with a password or a query in it.
func Shown(c Config) []Setting {
	out := make([]Setting, len(Keys))
	for i, k := range Keys {
		v := k.display(k.get(&c))
		if u, err := url.Parse(v); strings.Contains(v, "://") {
			if err != nil {
				v = hidden
			} else if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
				u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
				v = u.Redacted()
			}
		}
		out[i] = Setting{Key: k, Value: v}
	}
	return out
}

// Secrets are the texts in the settings that nobody may read, wherever they turn up.
func Secrets(c Config) []string {
	var out []string
	add := func(texts ...string) {
		for _, s := range texts {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, s)
			}
		}
	}
	for _, k := range Keys {
		v := k.get(&c)
		if k.Secret && k.Name != "database" {
			add(v)
			add(strings.Split(v, ",")...)
		}
		if u, err := url.Parse(v); err == nil && u.User != nil {
			if word, ok := u.User.Password(); ok {
				add(word, url.QueryEscape(word), url.PathEscape(word))
			}
		}
		if u, err := url.Parse(v); err == nil && k.Name == "database" {
			for name, values := range u.Query() {
				if strings.Contains(strings.ToLower(name), "password") {
					add(values...)
				}
			}
		}
	}
	for _, v := range c.Tracing.Pairs() {
		add(v)
		if _, word, ok := strings.Cut(v, " "); ok { // behind Bearer or Basic
			add(word)
		}
	}
	return out
}
