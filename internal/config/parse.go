package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func words(v string) []string {
	var out []string
	for w := range strings.SplitSeq(v, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func address(v string) bool {
	_, port, err := net.SplitHostPort(v)
	n, bad := strconv.Atoi(port)
	return err == nil && bad == nil && n >= 0 && n <= 65535
}

func webAddress(v string) bool {
	u, err := url.Parse(v)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func proxyAddress(v string) bool {
	u, err := url.Parse(v)
	return err == nil && webAddress(v) && u.Hostname() != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
}

func credentials(v string) bool {
	user, _, ok := strings.Cut(v, ":")
	return ok && user != "" && !strings.ContainsAny(v, "\r\n")
}

func database(v string) bool {
	path, ok := strings.CutPrefix(v, "sqlite:")
	return ok && path != "" || strings.HasPrefix(v, "postgres://") || strings.HasPrefix(v, "postgresql://")
}

func roles(v string, to *[]string) bool {
	rs := words(v)
	for _, r := range rs {
		if !slices.Contains(Roles, r) {
			return false
		}
	}
	if len(rs) > 0 {
		*to = rs
	}
	return len(rs) > 0
}

func boolean(v string, to *bool) bool {
	b, err := strconv.ParseBool(v)
	if err == nil {
		*to = b
	}
	return err == nil
}

func number(v string, least, most int, to *int) bool {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return false
	}
	*to = n
	return true
}

// span parses a number of units, or a Go duration.
func span(v string, least, most int, unit time.Duration, to *time.Duration) bool {
	d, err := time.ParseDuration(v)
	if n, bad := strconv.Atoi(v); bad == nil {
		d, err = time.Duration(n)*unit, nil
	}
	if err != nil || d < time.Duration(least)*unit || d > time.Duration(most)*unit {
		return false
	}
	*to = d
	return true
}

// ports parses ports separated by commas or spaces.
func ports(v string, to *[]int) bool {
	var out []int
	for text := range strings.FieldsFuncSeq(v, func(c rune) bool { return c == ',' || c == ' ' }) {
		var n int
		if !number(text, 1, 65_535, &n) {
			return false
		}
		out = append(out, n)
	}
	*to = out
	return true
}

// shownInts formats numbers as they are written.
func shownInts(ns []int) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = strconv.Itoa(n)
	}
	return out
}

func prefixes(v string, to *[]netip.Prefix) bool {
	var all []netip.Prefix
	for _, w := range words(v) {
		p, err := netip.ParsePrefix(w)
		if err != nil {
			a, err := netip.ParseAddr(w)
			if err != nil {
				return false
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		all = append(all, p.Masked())
	}
	*to = all
	return true
}

// paths parses a list of absolute paths.
func paths(v string, to *[]string) bool {
	ps := words(v)
	for i, p := range ps {
		if !filepath.IsAbs(p) {
			return false
		}
		ps[i] = filepath.Clean(p)
	}
	*to = ps
	return true
}

// digests parses a list of SHA-256 sums.
func digests(v string, to *[]string) bool {
	ds := words(v)
	for i, d := range ds {
		ds[i] = strings.ToLower(strings.TrimPrefix(d, "sha256:"))
		if sum, err := hex.DecodeString(ds[i]); err != nil || len(sum) != sha256.Size {
			return false
		}
	}
	*to = ds
	return true
}
