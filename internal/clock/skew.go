package clock

import (
	"fmt"
	"strings"
	"time"
)

// SkewVariable is the environment variable that makes this machine's clock wrong, in a build with -tags failpoint:
// +1h for an hour ahead, -1h@10s for an hour back from ten seconds after the start.
const SkewVariable = "CARILLON_CLOCK_SKEW"

// skew is the error of a clock, and when it begins after the start.
type skew struct{ by, after time.Duration }

// parseSkew reads a specification; nil for the empty one.
func parseSkew(spec string) (*skew, error) {
	if spec == "" {
		return nil, nil
	}
	const want = "want an offset such as +1h, or -1h@10s for one that begins ten seconds after the start"
	by, after, later := strings.Cut(spec, "@")
	var s skew
	var err error
	if s.by, err = time.ParseDuration(by); err != nil {
		return nil, fmt.Errorf("%q: %s", spec, want)
	}
	if later {
		if s.after, err = time.ParseDuration(after); err != nil || s.after < 0 {
			return nil, fmt.Errorf("%q: %s", spec, want)
		}
	}
	return &s, nil
}
