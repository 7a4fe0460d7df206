package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapRoom is how large the heap may grow with garbage, however little of it is in use. By itself the runtime collects as soon
// as there is as much garbage as there is in use, which for a server that holds 10 MB is several times a second under load.
const heapRoom = 52 << 20

// Roomy makes the runtime collect garbage less often while little memory is in use: when as much has gathered as is in use,
// or heapRoom is full. Where GOGC is set, that rules.
var Roomy = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		afterCollections(func() { debug.SetGCPercent(garbagePercent(inUse())) })
	}
})

// garbagePercent is how much garbage may gather, in percent of what is in use.
func garbagePercent(live uint64) int {
	return int(max(100, min(1000, 100*(heapRoom-min(live, heapRoom))/max(live, 1))))
}

// inUse is what the last collection found in use.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return heapRoom
	}
	return s[0].Value.Uint64()
}

// afterCollections calls f now and after each collection: an object that nobody holds is found by every one of them.
func afterCollections(f func()) {
	f()
	type mark struct{ _ [16]byte } // not one of those tiny ones that the runtime puts together
	runtime.SetFinalizer(new(mark), func(*mark) { afterCollections(f) })
}
