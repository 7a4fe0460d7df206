package workflow

import (
	"encoding/json"
	"strings"

	"github.com/carillon-jobs/carillon/internal/expression"
)

// WantEvent describes valid input of ValidEvent.
const WantEvent = "1 to 128 characters without spaces, such as order.paid"

// ValidEvent reports whether an event may have a name.
func ValidEvent(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

// EventMatch normalises the data of an event for comparison with waits; nil: it has none.
func EventMatch(match json.RawMessage) (json.RawMessage, error) {
	if !given(match) {
		return nil, nil
	}
	v, err := expression.Decode(match)
	if err != nil {
		return nil, err
	}
	return encode(v)
}
