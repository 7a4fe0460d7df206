package report

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	text, err := os.ReadFile("testdata/carillon.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	want := Numbers{
		Engine: "PostgreSQL 15.18", InsertPerS: 36537.1, WorkPerS: 40170.2, BothPerS: 25412.3,
		IdlePickupMS: Pickup{P50: 1.24, P99: 12.28}, RSSMB: 39.4,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestParseRefuses(t *testing.T) {
	text, err := os.ReadFile("testdata/carillon.json")
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	for name, c := range map[string]struct{ text, want string }{
		"nothing":         {"", "want one JSON object"},
		"a list":          {"[]", "want one JSON object"},
		"words":           {"Error: unknown command \"bench\"", "want one JSON object"},
		"a missing rate":  {strings.Replace(good, `"work_per_s"`, `"work"`, 1), "work_per_s is missing"},
		"a null":          {strings.Replace(good, `"rss_mb": 39.4`, `"rss_mb": null`, 1), "rss_mb is missing"},
		"a missing p99":   {strings.Replace(good, `"p99"`, `"p98"`, 1), "idle_pickup_ms.p99 is missing"},
		"no pickup":       {strings.Replace(good, `"idle_pickup_ms": {`, `"idle_pickup_ms": 3, "x": {`, 1), "idle_pickup_ms.p50 is missing"},
		"a text":          {strings.Replace(good, "25412.3", `"fast"`, 1), "both_per_s"},
		"a rate of 0":     {strings.Replace(good, "25412.3", "0", 1), "both_per_s is 0; want more than 0"},
		"less than none":  {strings.Replace(good, `"lost": 0`, `"lost": -1`, 1), "lost is -1"},
		"two objects":     {good + good, "want one JSON object"},
		"something large": {strings.Repeat("x", 10_000), "…"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		} else if len(err.Error()) > 1000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func TestMedian(t *testing.T) {
	run := func(rate float64, lost int) Numbers {
		return Numbers{
			Engine: "x", Settings: "s", InsertPerS: rate, WorkPerS: 2 * rate, BothPerS: 3 * rate, RSSMB: 4 * rate, Lost: lost, Doubled: 2 * lost,
			IdlePickupMS: Pickup{P50: 5 * rate, P99: 6 * rate}, InsertWays: map[string]float64{"a": 7 * rate},
		}
	}
	for _, c := range []struct {
		runs []Numbers
		want Numbers
	}{
		{[]Numbers{run(3, 0)}, run(3, 0)},
		{[]Numbers{run(9, 1), run(1, 0), run(2, 2)}, run(2, 3)},
		{[]Numbers{run(4, 0), run(2, 0)}, run(3, 0)},
	} {
		if got := Median(c.runs); !reflect.DeepEqual(got, c.want) {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values  []float64
		p, want float64
	}{
		{nil, 0.5, 0}, {[]float64{7}, 0.5, 7}, {[]float64{7}, 0.99, 7}, {hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
	} {
		if got := Percentile(c.values, c.p); got != c.want {
			t.Errorf("Percentile of %d values at %v: got %v, want %v", len(c.values), c.p, got, c.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("Percentile changed the order of what it was given")
	}
}
