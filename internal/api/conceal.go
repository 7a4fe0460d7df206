package api

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-jobs/carillon/client"
)

// credentials matches what looks like one: keys, cookies, badges, signing secrets, tokens, and what URLs carry beside the
// place they lead to. What stands before one is not looked at: in a log it may be the n of a line break.
var credentials = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(car_[a-z]+_[a-z0-9]{8})_[A-Za-z0-9]+`), "${1}_…"},
	{regexp.MustCompile(`(?i)(cas|cct|cbg)_[a-z0-9_-]{8,}`), "${1}_…"},
	{regexp.MustCompile(`whs(ec|k)_[A-Za-z0-9+/=_-]+`), "whs${1}_…"},
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*){0,2}`), "eyJ…"},
	{regexp.MustCompile(`(?i)(bearer|basic) +[a-z0-9._~+/=-]{8,}`), "${1} …"},
	{regexp.MustCompile(`(?i)(password|passwd)=[^\s&"]+`), "${1}=…"},
	{regexp.MustCompile(`(://[^\s/@:"]*):[^\s"]*@`), "${1}:…@"}, // up to the last @: a password may have one
	{regexp.MustCompile(`(://[^\s?"]*\?)[^\s"]+`), "${1}…"},
}

// concealer takes out of texts what is secret.
type concealer struct {
	literals []string // as they are and as logs quote them, the longest first
	replace  *strings.Replacer
}

// minLiteral is the least length of a secret that is looked for as it is.
const minLiteral = 8

// productWords are words that are in every bundle.
var productWords = []string{
	"carillon", "postgres", "postgresql", "password", "localhost", "executor", "execution", "executions", "schedule", "schedules", "dispatch", "attempts", "goroutine", "goroutines", "operator", "bootstrap",
}

// newConcealer makes one of the secrets of the settings. What is short, or a word of the product, would be found in everything,
// and tell itself by being missing: it is left to what addresses look like.
func newConcealer(secrets []string, settings []client.SupportSetting) *concealer {
	words := slices.Clone(productWords)
	for _, s := range settings {
		words = append(words, s.Key)
		words = append(words, strings.FieldsFunc(s.Key, func(c rune) bool { return c == '.' || c == '_' })...)
	}
	c := &concealer{}
	for _, s := range secrets {
		if len(s) < minLiteral || slices.Contains(words, strings.ToLower(s)) {
			continue
		}
		quoted := strconv.Quote(s)
		coded, _ := json.Marshal(s) // of a text, which always has a form
		c.literals = append(c.literals, s, quoted[1:len(quoted)-1], string(coded[1:len(coded)-1]))
	}
	slices.SortStableFunc(c.literals, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, s := range c.literals {
		pairs = append(pairs, s, "(not shown)")
	}
	c.replace = strings.NewReplacer(pairs...)
	return c
}

// text conceals the secrets, and what looks like a credential.
func (c *concealer) text(s string) string { return c.looks(c.replace.Replace(s)) }

// looks conceals what looks like a credential.
func (c *concealer) looks(s string) string {
	for _, x := range credentials {
		s = x.from.ReplaceAllString(s, x.to)
	}
	return s
}

// supportLine limits the bytes of a log line in a bundle.
const supportLine = 2000

// line conceals as text does, and only then cuts. Of a line that was cut before, its last word is left out, as it may be the
// beginning of a secret; and so is the beginning of one with spaces in it.
func (c *concealer) line(s string) string {
	whole, cut := strings.CutSuffix(s, "…")
	if cut {
		for _, l := range c.literals {
			for n := min(len(l)-1, len(whole)); n > 0; n-- {
				if strings.HasSuffix(whole, l[:n]) {
					whole = whole[:len(whole)-n]
					break
				}
			}
		}
		whole = whole[:strings.LastIndexAny(whole, " \"")+1]
	}
	whole = c.text(whole)
	if len(whole) > supportLine {
		whole, cut = strings.ToValidUTF8(whole[:supportLine], ""), true
	}
	if cut {
		whole += "…"
	}
	return whole
}
