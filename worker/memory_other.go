//go:build !linux

package worker

import "runtime/metrics"

// readMemory returns the memory that Go's runtime holds from the operating system. How much the process may use is
// unknown.
func readMemory() (used, limit int64) {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	for _, x := range s {
		if x.Value.Kind() != metrics.KindUint64 {
			return 0, 0
		}
	}
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64()), 0
}
