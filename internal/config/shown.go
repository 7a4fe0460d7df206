package config

import (
	"net/url"
	"slices"
	"strings"
)

// Shown returns the value of every setting in a form that anyone may read: without secrets, and without URLs that
// have a password or a query.
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

// plainOptions are the options in a database address that are not secret: their values appear in many messages.
var plainOptions = []string{
	"host", "port", "user", "dbname", "database", "sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "connect_timeout", "target_session_attrs", "search_path", "timezone", "client_encoding",
	"statement_timeout", "lock_timeout", "default_query_exec_mode", "pool_max_conns", "pool_min_conns",
}

// Secrets returns the texts in the settings that must not appear anywhere.
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
		if u, err := url.Parse(v); err == nil && strings.Contains(v, "://") {
			for name, values := range u.Query() {
				if k.Name == "database" && slices.Contains(plainOptions, strings.ToLower(name)) {
					continue
				}
				for _, word := range values {
					add(word, url.QueryEscape(word))
				}
			}
		}
	}
	for _, v := range c.Tracing.Pairs() {
		add(v)
		if _, word, ok := strings.Cut(v, " "); ok { // after Bearer or Basic
			add(word)
		}
	}
	return out
}
