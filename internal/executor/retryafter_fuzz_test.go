package executor

import (
	"net/http"
	"testing"
)

// Whatever a target asks for, the wait is from nothing to a day.
func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "0", "120", "99999999999999999999", "-1", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", " 7 "} {
		f.Add(text, "")
		f.Add(text, "Wed, 21 Oct 2015 07:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		if wait := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}}); wait < 0 || wait > maxRetryAfter {
			t.Errorf("%q at %q: %v", text, date, wait)
		}
	})
}
