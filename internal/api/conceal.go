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

// credentials matches what looks like one: keys, cookies, badges, signing secrets, tokens, and the parts of URLs
// besides their destination. The character before is ignored: in a log it may be the n of a line break.
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
	{regexp.MustCompile(`(://[^\s/@:"]*):[^\s"]*@`), "${1}:…@"}, // up to the last @: a password may contain one
	{regexp.MustCompile(`(://[^\s?"]*\?)[^\s"]+`), "${1}…"},
}

// concealer removes secrets from texts.
type concealer struct {
	literals []string // as they are and as logs quote them, longest first
	replace  *strings.Replacer
}

// minLiteral is the minimum length of a secret that is searched for literally.
const minLiteral = 8

// productWords lists words that are in every bundle.
var productWords = []string{
	"carillon", "postgres", "postgresql", "password", "localhost", "executor", "execution", "executions", "schedule", "schedules", "dispatch", "attempts", "goroutine", "goroutines", "operator", "bootstrap",
}

// newConcealer makes one from the secrets of the settings. A secret that is short, or a word of the product, would
// match everywhere, and its absence would reveal it: those are left to the patterns.
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
		coded, _ := json.Marshal(s) // a text always encodes
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

// text removes the secrets, and what looks like a credential.
func (c *concealer) text(s string) string { return c.looks(c.replace.Replace(s)) }

// looks removes what looks like a credential.
func (c *concealer) looks(s string) string {
	for _, x := range credentials {
		s = x.from.ReplaceAllString(s, x.to)
	}
	return s
}

// supportLine limits the bytes of a log line in a bundle.
const supportLine = 2000

// line removes secrets like text, and only then cuts. If a line was cut before, its last word is left out, as it may
// be the beginning of a secret; and so is the beginning of a secret that contains spaces.
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
