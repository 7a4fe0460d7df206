// Package report reads what each measured system prints and computes medians, ratios and the table. It starts nothing
// and measures nothing.
//
// Every system, Carillon and the peers alike, is a program that prints one JSON object on stdout; Numbers is that
// object.
package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Numbers holds the results of one system in one run, or the median over several.
type Numbers struct {
	Engine       string             `json:"engine"`
	InsertPerS   float64            `json:"insert_per_s"`
	WorkPerS     float64            `json:"work_per_s"`
	BothPerS     float64            `json:"both_per_s"`
	IdlePickupMS Pickup             `json:"idle_pickup_ms"`
	RSSMB        float64            `json:"rss_mb"`
	Lost         int                `json:"lost"`
	Doubled      int                `json:"doubled"`
	Settings     string             `json:"settings,omitempty"`
	InsertWays   map[string]float64 `json:"insert_ways,omitempty"`
}

// Pickup is the time from an insert to the start of its handler on an otherwise idle system.
type Pickup struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// required lists the keys that every result must have, so that a missing measurement does not count as zero.
var required = []string{"engine", "insert_per_s", "work_per_s", "both_per_s", "idle_pickup_ms.p50", "idle_pickup_ms.p99", "rss_mb", "lost", "doubled"}

// Parse reads the JSON object of one run. It ignores unknown keys.
func Parse(text []byte) (Numbers, error) {
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		return Numbers{}, fmt.Errorf("want one JSON object: %w; got %s", err, show(text))
	}
	for _, key := range required {
		if !has(keys, key) {
			return Numbers{}, fmt.Errorf("the key %s is missing in %s", key, show(text))
		}
	}
	var n Numbers
	if err := json.Unmarshal(text, &n); err != nil {
		return Numbers{}, fmt.Errorf("want numbers as bench prints them: %w", err)
	}
	return n, n.check()
}

// check refuses impossible results.
func (n Numbers) check() error {
	for _, v := range []struct {
		key   string
		value float64
	}{
		{"insert_per_s", n.InsertPerS}, {"work_per_s", n.WorkPerS}, {"both_per_s", n.BothPerS},
		{"idle_pickup_ms.p50", n.IdlePickupMS.P50}, {"idle_pickup_ms.p99", n.IdlePickupMS.P99},
	} {
		if v.value <= 0 {
			return fmt.Errorf("%s is %v; want more than 0", v.key, v.value)
		}
	}
	if n.Lost < 0 || n.Doubled < 0 {
		return fmt.Errorf("lost is %d and doubled is %d; want 0 or more", n.Lost, n.Doubled)
	}
	return nil
}

func has(keys map[string]any, path string) bool {
	first, rest, nested := strings.Cut(path, ".")
	value, ok := keys[first]
	if !nested || !ok {
		return ok && value != nil
	}
	inner, ok := value.(map[string]any)
	return ok && has(inner, rest)
}

// show shortens untrusted text for an error.
func show(text []byte) string {
	const most = 200
	s := strings.TrimSpace(string(text))
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", s)
}

// Median returns the median of each number over the runs. Lost and repeated jobs are added up, since a median would
// hide them. runs must not be empty.
func Median(runs []Numbers) Numbers {
	of := func(get func(Numbers) float64) float64 {
		values := make([]float64, len(runs))
		for i, r := range runs {
			values[i] = get(r)
		}
		return median(values)
	}
	m := Numbers{
		Engine: runs[0].Engine, Settings: runs[0].Settings,
		InsertPerS: of(func(n Numbers) float64 { return n.InsertPerS }),
		WorkPerS:   of(func(n Numbers) float64 { return n.WorkPerS }),
		BothPerS:   of(func(n Numbers) float64 { return n.BothPerS }),
		IdlePickupMS: Pickup{
			P50: of(func(n Numbers) float64 { return n.IdlePickupMS.P50 }),
			P99: of(func(n Numbers) float64 { return n.IdlePickupMS.P99 }),
		},
		RSSMB: of(func(n Numbers) float64 { return n.RSSMB }),
	}
	for _, r := range runs {
		m.Lost += r.Lost
		m.Doubled += r.Doubled
	}
	for way := range runs[0].InsertWays {
		if m.InsertWays == nil {
			m.InsertWays = map[string]float64{}
		}
		m.InsertWays[way] = of(func(n Numbers) float64 { return n.InsertWays[way] })
	}
	return m
}

func median(values []float64) float64 {
	slices.Sort(values)
	mid := len(values) / 2
	if len(values)%2 == 1 {
		return values[mid]
	}
	return (values[mid-1] + values[mid]) / 2
}

// Percentile returns the value below which the share p (0 to 1) of the values lies; 0 if there are none.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}
