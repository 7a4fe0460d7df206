package schedule

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Zone is a time zone whose offset changes are laid out for search. It is immutable and meant to be shared.
type Zone struct {
	name  string
	loc   *time.Location
	fixed bool // there is only ever one offset
	spans []span
	index [tableEnd >> indexShift]uint16 // the span in which each stretch of 2^22 seconds (48 days) begins
}

// span is a period of time with one offset.
type span struct {
	lo, hi int64 // Unix seconds: lo <= t < hi
	off    int64 // local time is t + off
	prev   int64 // the offset before lo
}

const (
	tableEnd   = 1 << 32 // the table covers 1970 to 2106; package time answers for the rest
	indexShift = 22
	farPast    = math.MinInt64 / 4
	farFuture  = math.MaxInt64 / 4
)

// UTC is the zone of schedules that name none.
var UTC = NewZone(time.UTC)

// NewZone builds the table of a location, in about a tenth of a millisecond.
func NewZone(loc *time.Location) *Zone {
	z := &Zone{name: loc.String(), loc: loc}
	for t := int64(0); t < tableEnd; {
		s := z.ask(t)
		if n := len(z.spans); n > 0 && z.spans[n-1].off == s.off {
			z.spans[n-1].hi = s.hi // a change of name only, or the time package's change of year
		} else {
			z.spans = append(z.spans, s)
		}
		t = s.hi
	}
	z.fixed = z.spans[0].lo == farPast && z.spans[0].hi == farFuture
	i := 0
	for b := range z.index {
		for z.spans[i].hi <= int64(b)<<indexShift {
			i++
		}
		z.index[b] = uint16(i)
	}
	return z
}

// String returns the zone's IANA name.
func (z *Zone) String() string { return z.name }

// ask reads a span from package time.
func (z *Zone) ask(t int64) span {
	at := time.Unix(t, 0).In(z.loc)
	start, end := at.ZoneBounds()
	_, off := at.Zone()
	s := span{lo: farPast, hi: farFuture, off: int64(off), prev: int64(off)}
	if !start.IsZero() {
		s.lo = start.Unix()
		_, prev := time.Unix(s.lo-1, 0).In(z.loc).Zone()
		s.prev = int64(prev)
	}
	if !end.IsZero() {
		s.hi = end.Unix()
	}
	if s.hi <= t {
		// Beyond its table the time package counts 365 days to every year: it ends leap years a day early.
		s.hi = t - t%daySeconds + daySeconds
	}
	return s
}

// at returns the span that contains an instant.
func (z *Zone) at(t int64) span {
	if z.fixed {
		return z.spans[0]
	}
	if uint64(t) >= tableEnd {
		return z.ask(t)
	}
	i := int(z.index[t>>indexShift])
	for z.spans[i].hi <= t {
		i++
	}
	return z.spans[i]
}

// abbreviations are zone names that are misleading: most of them have no daylight saving time, or mean different
// places to different readers.
var abbreviations = []string{
	"CET", "CST6CDT", "EET", "EST", "EST5EDT", "GMT", "GMT+0", "GMT-0", "GMT0", "HST", "MET", "MST", "MST7MDT",
	"PST8PDT", "UCT", "WET", "Zulu", "Local", "Factory", "localtime", "posixrules",
}

const wantZone = "an IANA zone name such as Europe/Berlin, or UTC"

// checkZone validates the form of a zone's name. It does not know which zones exist.
func checkZone(name string) error {
	bad := func(hint string) error { return wrong("timezone", name, 0, wantZone, hint) }
	switch {
	case name == "":
		return bad("write UTC if that is meant")
	case slices.ContainsFunc(abbreviations, func(a string) bool { return strings.EqualFold(a, name) }):
		return bad("an abbreviation does not say which clock changes apply: name a city")
	case name[0] == '+' || name[0] == '-' || strings.HasPrefix(name, "UTC") && name != "UTC":
		return bad("an offset does not say which clock changes apply: name a city")
	case len(name) > 64 || name[0] < 'A' || name[0] > 'Z' || strings.Contains(name, "//") || strings.HasSuffix(name, "/") ||
		strings.ContainsFunc(name, notInZone):
		return bad("")
	}
	return nil
}

func notInZone(r rune) bool {
	return !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '/' || r == '_' || r == '+' || r == '-')
}
