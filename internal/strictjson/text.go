package strictjson

import (
	"encoding"
	"errors"
	"reflect"
	"time"
)

// bindText is for types that are written as strings of a certain form: want is for values that are not strings, set
// accepts or refuses strings.
func bindText(want string, set func(v reflect.Value, text []byte) error) func(*decoder, reflect.Value) bool {
	return func(d *decoder, v reflect.Value) bool {
		if d.peek() != '"' {
			return d.mismatch(want)
		}
		start := d.pos
		raw, escaped, ok := d.str()
		if !ok {
			return false
		}
		if err := set(v, d.text(raw, escaped)); err != nil {
			d.add(start, d.data[start:d.pos], wantOf(err))
		}
		return true
	}
}

func setText(v reflect.Value, text []byte) error {
	return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(text)
}

func wantOf(err error) string {
	var w interface{ Want() string }
	if errors.As(err, &w) {
		return w.Want()
	}
	return "a valid value: " + err.Error()
}

// badTime is the error for every text that is not a time.
type badTime struct{}

func (badTime) Error() string { return "not a time" }
func (badTime) Want() string  { return wantTime }

func setTime(v reflect.Value, text []byte) error {
	t := v.Addr().Interface().(*time.Time)
	if t.UnmarshalText(text) != nil || !keepsRFC3339(text) {
		return badTime{}
	}
	return nil
}

// keepsRFC3339 refuses what package time accepts as RFC 3339 although it is not: hours of one digit, a decimal comma
// and zones out of range, see https://go.dev/issue/54580.
func keepsRFC3339(text []byte) bool {
	const hourEnd, secondEnd, zone = len("2006-01-02T15"), len("2006-01-02T15:04:05"), len("+07:00")
	if len(text) <= secondEnd || text[hourEnd] != ':' || text[secondEnd] == ',' {
		return false
	}
	if text[len(text)-1] == 'Z' {
		return true
	}
	offset := text[len(text)-zone:]
	return string(offset[1:3]) < "24" && string(offset[4:]) < "60"
}
