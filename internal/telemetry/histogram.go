package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogram counts durations of executions. Those come in batches, so that one lock serves many: Prometheus' own
// takes several atomic operations for each.
type histogram struct {
	desc   *prometheus.Desc
	bounds []float64

	mu     sync.Mutex
	counts []uint64 // guarded by mu: by the first bound that is not exceeded; the last is above them all
	sum    float64  // guarded by mu
}

func newHistogram(name, help string, bounds []float64) *histogram {
	return &histogram{desc: prometheus.NewDesc("carillon_"+name, help, nil, nil), bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// add counts a duration; negative ones count as zero. The caller holds mu.
func (h *histogram) add(d time.Duration) {
	v := max(0, d).Seconds()
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] { // most are short
		i++
	}
	h.counts[i]++
	h.sum += v
}

// Describe sends its description.
func (h *histogram) Describe(to chan<- *prometheus.Desc) { to <- h.desc }

// Collect sends its current value.
func (h *histogram) Collect(to chan<- prometheus.Metric) {
	h.mu.Lock()
	buckets, n := make(map[float64]uint64, len(h.bounds)), uint64(0)
	for i, b := range h.bounds {
		n += h.counts[i]
		buckets[b] = n
	}
	n += h.counts[len(h.bounds)]
	sum := h.sum
	h.mu.Unlock()
	to <- prometheus.MustNewConstHistogram(h.desc, n, sum, buckets)
}
