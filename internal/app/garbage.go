package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// heapRoom sets how large the heap may grow with garbage, however little of it is in use. By itself the runtime collects as soon
// as there is as much garbage as there is in use, which for a server that holds 10 MB is several times a second under load.
const heapRoom = 52 << 20

// Roomy makes the runtime collect garbage less often while little memory is in use: when as much has gathered as is in use,
// or heapRoom is full; and give back what a burst has left behind. Where GOGC is set, that rules.
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

// quiet sets how long nothing was collected when memory is given back to the system, and worthwhile how much there must be to
// give: a collection of a quiet server takes some milliseconds, and with nothing to do it gathers that much in a minute.
const (
	quiet      = 10 * time.Second
	worthwhile = 16 << 20
)

// heap holds the runtime's numbers about the heap.
type heap struct {
	cycles uint64 // collections so far
	held   uint64 // bytes that the system has given, in use or not
	live   uint64 // bytes that the last collection found in use
}

// giver gives memory back that a burst has left behind. The runtime collects when enough has gathered, which after a burst
// may take very long, and does not give back what it may need for the next one.
type giver struct{ cycles uint64 }

// look gives back where nothing was collected since the last look, and there is enough to give.
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

// garbagePercent returns how much garbage may gather, in percent of what is in use.
func garbagePercent(live uint64) int {
	return int(max(100, min(1000, 100*(heapRoom-min(live, heapRoom))/max(live, 1))))
}

// inUse returns what the last collection found in use.
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
