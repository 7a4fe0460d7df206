package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe describes in one English sentence when the expression fires.
func (c *Cron) Describe() string {
	if c.every > 0 {
		return DescribeEvery(c.Every())
	}
	w, err := take(c.text, c.day)
	if err != nil {
		return c.text // its text was accepted before, so this does not happen
	}
	s := c.describeTime() + c.describeDays(w)
	return strings.ToUpper(s[:1]) + s[1:] + " (" + c.zone.name + ")"
}

// DescribeEvery describes an interval in one English sentence.
func DescribeEvery(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return "Every " + text + " from its start, whatever the time zone"
}

// maxTimes is how many times of day are listed one by one.
const maxTimes = 6

func (c *Cron) describeTime() string {
	h, m, s := bits.OnesCount32(c.hour), bits.OnesCount64(c.minute), bits.OnesCount64(c.second)
	if h*m*s <= maxTimes {
		return "at " + c.times()
	}
	minute := series{mask: c.minute, size: 60, one: "minute"}
	if c.second == 1 {
		if pace := minute.every(); pace != "" {
			return pace + c.describeHours(true)
		}
		return "at " + minute.named() + c.describeHours(false)
	}
	second := series{mask: c.second, size: 60, one: "second"}
	pace := second.every()
	switch {
	case pace != "" && m == 60:
		return pace + c.describeHours(true)
	case pace != "":
		return pace + " during " + minute.named() + c.describeHours(false)
	case m == 60:
		return "at " + second.named() + " of every minute" + c.describeHours(true)
	}
	return "at " + second.named() + " of " + minute.named() + c.describeHours(false)
}

// describeHours follows an interval ("every 5 minutes") or minutes ("at minute 5").
func (c *Cron) describeHours(paced bool) string {
	at := series{mask: uint64(c.hour), size: 24, one: "hour"}
	switch {
	case c.hour == 1<<24-1 && paced:
		return ""
	case c.hour == 1<<24-1:
		return " of every hour"
	case paced:
		return " during " + at.named()
	}
	return " of " + at.named()
}

// times returns the times of day, in order.
func (c *Cron) times() string {
	var out []string
	for h := c.hour; h != 0; h &= h - 1 {
		for m := c.minute; m != 0; m &= m - 1 {
			for s := c.second; s != 0; s &= s - 1 {
				text := fmt.Sprintf("%02d:%02d", bits.TrailingZeros32(h), bits.TrailingZeros64(m))
				if c.second != 1 {
					text += fmt.Sprintf(":%02d", bits.TrailingZeros64(s))
				}
				out = append(out, text)
			}
		}
	}
	return list(out, "and")
}

// series is a set of values to describe.
type series struct {
	mask uint64
	size int
	base int // what bit 0 is called
	one  string
}

func (s series) values() []int {
	var out []int
	for m := s.mask; m != 0; m &= m - 1 {
		out = append(out, bits.TrailingZeros64(m)+s.base)
	}
	return out
}

// step returns the distance between all neighbours, or 0.
func (s series) step() int {
	v := s.values()
	for i := 2; i < len(v); i++ {
		if v[i]-v[i-1] != v[1]-v[0] {
			return 0
		}
	}
	if len(v) < 2 {
		return 0
	}
	return v[1] - v[0]
}

// every returns "every 5 minutes" if that is exact, also across the hour; else "".
func (s series) every() string {
	v, step := s.values(), s.step()
	switch {
	case step == 0 || s.size%step != 0 || len(v) != s.size/step:
		return ""
	case step == 1:
		return "every " + s.one
	case v[0] == 0:
		return fmt.Sprintf("every %d %ss", step, s.one)
	case len(v) <= maxTimes:
		return "" // listing the values is clearer
	}
	return fmt.Sprintf("every %d %ss from %s %d on", step, s.one, s.one, v[0])
}

// named returns "minute 5", "minutes 0 to 10", "minutes 0, 7, ... 56".
func (s series) named() string {
	v := s.values()
	if len(v) == 1 {
		return s.one + " " + strconv.Itoa(v[0])
	}
	return s.one + "s " + s.numbers()
}

func (s series) numbers() string {
	v, step := s.values(), s.step()
	n := len(v)
	switch {
	case step == 1 && n > 2:
		return fmt.Sprintf("%d to %d", v[0], v[n-1])
	case step > 1 && n > 4:
		return fmt.Sprintf("%d, %d, ... %d", v[0], v[1], v[n-1])
	}
	return list(runs(v, strconv.Itoa), "and")
}

// stretch finds a series of three or more consecutive values, which may wrap around, if there are no others.
func (s series) stretch() (first, last int, ok bool) {
	n := bits.OnesCount64(s.mask)
	for i := range s.size {
		run := uint64(1)<<n - 1
		if n > 2 && n < s.size && (run<<i|run<<i>>s.size)&(1<<s.size-1) == s.mask {
			return i + s.base, (i+n-1)%s.size + s.base, true
		}
	}
	return 0, 0, false
}

// runs shortens three or more consecutive values to "1 to 3".
func runs(v []int, name func(int) string) []string {
	var out []string
	for i := 0; i < len(v); {
		j := i
		for j+1 < len(v) && v[j+1] == v[j]+1 {
			j++
		}
		if j-i < 2 {
			j = i
			out = append(out, name(v[i]))
		} else {
			out = append(out, name(v[i])+" to "+name(v[j]))
		}
		i = j + 1
	}
	return out
}
