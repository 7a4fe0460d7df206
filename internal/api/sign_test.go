package api

import (
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/strictjson"
)

// A worker that does not say what it holds is not one that holds nothing.
func TestABeatThatNamesNothing(t *testing.T) {
	for body, said := range map[string]bool{`{}`: false, `{"executions": null}`: false, `{"executions": []}`: true} {
		var b client.Beat
		if err := strictjson.Unmarshal([]byte(body), &b); err != nil {
			t.Fatal(err)
		}
		sign, err := signOf(b)
		if err != nil || (sign.Held != nil) != said {
			t.Errorf("%s: %#v, %v", body, sign.Held, err)
		}
	}
}
