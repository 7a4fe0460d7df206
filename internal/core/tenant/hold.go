package tenant

import "time"

// Hold keeps history from being purged, whatever its retention: that of one job, or of a whole tenant.
type Hold struct {
	ID     string // a UUID that grows with time
	Tenant ID
	Job    [16]byte // zero: the whole tenant
	Reason string
	By     string // who asked for it
	At     time.Time
}

// OfTenant reports whether it holds everything of its tenant.
func (h Hold) OfTenant() bool { return h.Job == [16]byte{} }

// HeldBy returns the first hold that keeps the history of a job of a tenant; of the tenant as a whole, if the job is
// zero.
func HeldBy(hs []Hold, t ID, job [16]byte) (Hold, bool) {
	for _, h := range hs {
		if h.Tenant == t && (h.OfTenant() || h.Job == job) {
			return h, true
		}
	}
	return Hold{}, false
}
