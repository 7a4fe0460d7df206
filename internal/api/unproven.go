package api

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// unproven limits the rate of requests per address that come without a credential which has worked from there, before
// anything is looked up for them. Its number of slots is fixed; addresses that share a slot share its rate.
type unproven struct {
	every time.Duration // from one request to the next
	ahead time.Duration // that a burst is worth
	seed  maphash.Seed
	began time.Time
	slots [1 << 14]atomic.Int64 // until when a slot has paid, in nanoseconds since began
}

// unprovenBurst is the burst of an address, in seconds of its rate.
const unprovenBurst = 10

// newUnproven allows each address n requests a second; it returns nil for no limit.
func newUnproven(perSecond int) *unproven {
	if perSecond <= 0 {
		return nil
	}
	return &unproven{every: time.Second / time.Duration(perSecond), ahead: unprovenBurst * time.Second, seed: maphash.MakeSeed(), began: time.Now()}
}

// take counts one request of an address, or returns how long to wait.
func (u *unproven) take(a netip.Addr, now time.Time) time.Duration {
	if u == nil {
		return 0
	}
	slot := &u.slots[maphash.Comparable(u.seed, network(a))%uint64(len(u.slots))]
	at := int64(now.Sub(u.began))
	for {
		paid := slot.Load()
		from := max(paid, at)
		if wait := time.Duration(from-at) + u.every - u.ahead; wait > 0 {
			return wait
		}
		if slot.CompareAndSwap(paid, from+int64(u.every)) {
			return 0
		}
	}
}
