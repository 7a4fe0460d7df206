package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// heapRoom is the heap size up to which garbage may accumulate, however little is in use. By default the runtime
// collects once there is as much garbage as live data, which for a server with 10 MB is several times a second under
// load.
const heapRoom = 52 << 20

// Roomy makes the runtime collect garbage less often while little memory is in use: only once heapRoom is full, or
// garbage equals live data. It also returns memory to the system after a burst. If GOGC is set, it takes precedence.
var Roomy = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" {
		return
	}
	afterCollections(func() { debug.SetGCPercent(garbagePercent(inUse())) })
	go func() {
		var g giver
		for range time.Tick(quiet) {
			g.look(readHeap, debug.FreeOSMemory)
		}
	}()
})

// quiet is the time without a collection after which memory is returned to the system, and worthwhile the least
// amount to return: collecting on an idle server takes some milliseconds, and with nothing to do it accumulates that
// much in a minute.
const (
	quiet      = 10 * time.Second
	worthwhile = 16 << 20
)

// heap holds the runtime's numbers about the heap.
type heap struct {
	cycles uint64 // collections so far
	held   uint64 // bytes obtained from the system, in use or not
	live   uint64 // bytes in use at the last collection
}

// giver returns memory to the system after a burst. The runtime collects only when enough garbage has accumulated,
// which after a burst may take very long, and keeps what the next one may need.
type giver struct{ cycles uint64 }

// look returns memory if there was no collection since the last look and there is enough to return.
func (g *giver) look(read func() heap, give func()) {
	h := read()
	if h.cycles == g.cycles && h.held > h.live+worthwhile {
		give()
		h = read()
	}
	g.cycles = h.cycles
}

func readHeap() (h heap) {
	s := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	for i := range s {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return heap{}
		}
	}
	return heap{cycles: s[0].Value.Uint64(), live: s[1].Value.Uint64(), held: s[2].Value.Uint64() + s[3].Value.Uint64() + s[4].Value.Uint64()}
}

// garbagePercent returns how much garbage may accumulate, in percent of the live data.
func garbagePercent(live uint64) int {
	return int(max(100, min(1000, 100*(heapRoom-min(live, heapRoom))/max(live, 1))))
}

// inUse returns the bytes in use at the last collection.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return heapRoom
	}
	return s[0].Value.Uint64()
}

// afterCollections calls f now and after each garbage collection: each one finalizes an unreachable object.
func afterCollections(f func()) {
	f()
	type mark struct{ _ [16]byte } // large enough that the runtime does not combine it with others
	runtime.SetFinalizer(new(mark), func(*mark) { afterCollections(f) })
}
